//! Uploads.

use std::net::IpAddr;

use super::super::upload_slots::UPLOADS_MAX;
use super::*;
use crate::ingress::Caller;

#[test]
fn d10_a_file_uploaded_in_pieces_of_any_size_is_downloaded_unchanged() {
    let world = World::new();
    let content = lines(50) + "\r\n--XY not the end\r\n";
    for piece in [1, 7, 64, 1 << 20] {
        let file = world.send(&form(&content), piece).unwrap();
        assert_eq!((file.bytes, file.name.as_str()), (content.len() as u64, "in.jsonl"));
        let path = format!("/v1/files/{}", file.id);
        assert_eq!(world.get(&format!("{path}/content")), content);
        let shape = json!({"id": file.id, "object": "file", "bytes": content.len(),
            "created_at": 1_000_000, "expires_at": 3_592_000, "filename": "in.jsonl",
            "purpose": "batch", "status": "processed"});
        assert_eq!(world.get(&path), shape);
    }
    assert_eq!(world.batches().files.used(), 4 * content.len() as u64);
    assert_eq!(world.names("drafts"), Vec::<String>::new());
}

#[test]
fn d10_a_large_file_passes_through() {
    let world = World::new();
    let content = lines(1).repeat(200_000);
    let file = world.send(&form(&content), 300_000).unwrap();
    assert_eq!(file.bytes, content.len() as u64);
    let back = world.get(&format!("/v1/files/{}/content", file.id));
    assert!(back == content, "the download differs from the upload");
}

#[test]
fn d10_a_malformed_upload_leaves_no_file() {
    let world = World::with(dispatch::Batch { file_limit: 1000, ..dispatch::Batch::default() });
    let (purpose, file) = (field("name=\"purpose\"", "batch"), file_field("x"));
    let end = "--XYZ--";
    let other = field("name=\"purpose\"", "fine-tune");
    let long = field("name=\"note\"", &"x".repeat(2000));
    let soon = field("name=\"expires_after[seconds]\"", "60");
    let anchor = field("name=\"expires_after[anchor]\"", "created_at");
    let rows = [
        (format!("{purpose}{end}"), "file"),
        (format!("{file}{end}"), "purpose"),
        (format!("{file}{other}{end}"), "purpose"),
        (format!("{purpose}{file}{file}{end}"), "file"),
        (format!("{purpose}{file}{soon}{end}"), "expires_after"),
        (format!("{purpose}{file}{anchor}{soon}{end}"), "expires_after"),
        (format!("{purpose}{file}"), ""),
        (format!("{purpose}{file}{long}{end}"), ""),
        (format!("{purpose}{}", "--XYZ\r\n\r\n"), ""),
        ("{}".into(), ""),
    ];
    for (form, field) in rows {
        let found = match world.send(form.as_bytes(), 100).unwrap_err() {
            Fault::InvalidField(field, _) => field,
            Fault::InvalidRequest(_) => "",
            other => panic!("{other:?}"),
        };
        assert_eq!(found, field, "{form}");
    }
    let large = world.send(&form(&"x".repeat(1001)), 100).unwrap_err();
    assert_eq!(large, Fault::FileTooLarge(1000));
    world.await_no_drafts();
    assert_eq!(world.names("files"), Vec::<String>::new());
    assert_eq!(world.batches().files.used(), 0);
    assert_eq!(world.send(&form(&"x".repeat(1000)), 100).unwrap().bytes, 1000);
}

#[test]
fn d10_an_upload_must_be_a_form_within_the_size_limit() {
    let world = World::with(dispatch::Batch { file_limit: 1000, ..dispatch::Batch::default() });
    let batches = world.batches();
    let json = |headers: &mut HeaderMap| {
        headers.insert("content-type", "application/json".parse().unwrap());
    };
    let mut headers = form_headers();
    json(&mut headers);
    assert!(matches!(batches.upload(&headers, 0, (None, None)), Err(Fault::InvalidRequest(_))));
    let fault = batches.upload(&form_headers(), 1000 + (1 << 20) + 1, (None, None)).unwrap_err();
    assert_eq!(fault, Fault::FileTooLarge(1000));
    // The limit also holds before the first part of the form.
    let endless = world.run(async {
        let mut upload = batches.upload(&form_headers(), 0, (None, None)).unwrap();
        loop {
            if let Err(fault) = upload.take(&[b'x'; 100_000]).await {
                return fault;
            }
        }
    });
    assert_eq!(endless, Fault::FileTooLarge(1000));
}

/// The client of an upload without tenants, at one of two addresses.
fn from(at: usize) -> (Option<&'static Caller>, Option<IpAddr>) {
    (None, Some(IpAddr::from([127, 0, 0, 1 + (at % 2) as u8])))
}

#[test]
fn x03_the_number_of_uploads_at_once_is_limited() {
    let world = World::new();
    let batches = world.batches();
    let mut coming: Vec<Upload> =
        (0..UPLOADS_MAX).map(|at| batches.upload(&form_headers(), 0, from(at)).unwrap()).collect();
    assert_eq!(batches.upload(&form_headers(), 0, (None, None)).unwrap_err(), Fault::Overloaded);
    coming.pop();
    assert!(batches.upload(&form_headers(), 0, (None, None)).is_ok());
}

#[test]
fn x03_the_size_of_all_files_is_limited_and_includes_uploads() {
    let world = World::with(dispatch::Batch { files_limit: 1000, ..dispatch::Batch::default() });
    let first = world.send(&form(&"x".repeat(600)), 100).unwrap();
    let full = |result: Result<File, Fault>| matches!(result, Err(Fault::StorageFull(_)));
    assert!(full(world.send(&form(&"x".repeat(401)), 100)));
    world.await_no_drafts();
    // An upload counts from its first byte until it is dropped.
    let batches = world.batches();
    let mut coming = batches.upload(&form_headers(), 0, (None, None)).unwrap();
    world.run(coming.take(file_field(&"x".repeat(300)).as_bytes())).unwrap();
    assert!(full(world.send(&form(&"x".repeat(200)), 100)));
    drop(coming);
    world.await_no_drafts();
    assert_eq!(world.send(&form(&"x".repeat(200)), 100).unwrap().bytes, 200);
    world.call("DELETE", &format!("/v1/files/{}", first.id), &Value::Null).unwrap();
    assert_eq!(world.send(&form(&"x".repeat(800)), 100).unwrap().bytes, 800);
}

#[test]
fn d10_names_are_shown_and_never_used_as_paths() {
    let world = World::new();
    let long = "n".repeat(1000);
    let rows = [
        ("../../../etc/passwd", "../../../etc/passwd"),
        ("/etc/passwd", "/etc/passwd"),
        ("a\u{7}\u{1b}[31mb", "a[31mb"),
        ("", "file"),
        (long.as_str(), &long[..255]),
    ];
    for (given, kept) in rows {
        let part = field(&format!("name=\"file\"; filename=\"{given}\""), "x");
        let form = format!("{}{part}--XYZ--", field("name=\"purpose\"", "batch"));
        let file = world.send(form.as_bytes(), 100).unwrap();
        assert_eq!(file.name, kept);
        assert!(world.names("files").contains(&file.id));
    }
    for id in ["..", "%2e%2e", "file-%00", "file-x\\y", "queue.db"] {
        let path = format!("/v1/files/{id}/content");
        let Ok(Route::Batch(_)) = classify(&http::Method::GET, &path) else { continue };
        let fault = world.call("GET", &path, &Value::Null).unwrap_err();
        assert!(matches!(fault, Fault::FileNotFound(_)), "{id}: {fault:?}");
    }
}

#[test]
fn d10_an_upload_may_set_when_its_file_expires() {
    let world = World::new();
    let (purpose, file) = (field("name=\"purpose\"", "batch"), file_field("x"));
    let anchor = field("name=\"expires_after[anchor]\"", "created_at");
    let soon = field("name=\"expires_after[seconds]\"", "3600");
    let form = format!("{purpose}{anchor}{soon}{file}--XYZ--");
    let file = world.send(form.as_bytes(), 100).unwrap();
    assert_eq!(file.expires, at(3600));
    world.run_once(3599);
    assert_eq!(world.names("files"), [file.id]);
    world.run_once(3600);
    assert_eq!(world.names("files"), Vec::<String>::new());
    assert_eq!(world.batches().files.used(), 0);
}
