//! X04, X02: TLS between Envoy and the picker.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use crate::support::envoy::FREE;
use crate::support::gateway::{config, fresh_file};
use crate::support::tls::{Authority, KeyedCertificate};
use crate::support::wait::BOUND;
use crate::support::{Backend, Gateway, Picker, Recipe, chat};

fn backend_config(sections: &str, backend: SocketAddr) -> String {
    config(sections, &[("one", backend)])
}

/// A new folder with a certificate and its key.
fn folder(keyed: &KeyedCertificate) -> std::path::PathBuf {
    let folder = fresh_file().parent().unwrap().join("picker");
    fs::create_dir(&folder).unwrap();
    write(&folder, keyed);
    folder
}

fn write(folder: &std::path::Path, keyed: &KeyedCertificate) {
    fs::write(folder.join("tls.crt"), &keyed.certificate).unwrap();
    fs::write(folder.join("tls.key"), &keyed.key).unwrap();
}

/// Whether a caller without TLS gets the settings of HTTP/2.
fn is_answered(address: SocketAddr) -> bool {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(BOUND)).unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").unwrap();
    let mut frame = [0; 9];
    // A connection that is closed with unread bytes may be reset.
    stream.read_exact(&mut frame).is_ok_and(|()| frame[3] == 4)
}

/// The Gateway API's implementations speak TLS and do not check the certificate.
#[test]
fn x04_x02_envoy_speaks_tls_to_a_picker_without_any_setting() {
    let backend = Backend::quick();
    let sections = backend_config("", backend.address());
    let picker = Picker::start(Recipe::original_dst().with_tls(None), &sections);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    assert_eq!(picker.ask(&chat("m").streamed()).status, 200);
}

const READ_AGAIN: &str = "the certificates were read again";

#[test]
fn x04_x02_envoy_checks_the_certificate_of_a_folder_and_its_renewal() {
    let (authority, backend) = (Authority::new("test"), Backend::quick());
    let certificates = folder(&authority.issue(&["picker.example"]));
    let roots = certificates.join("roots.pem");
    fs::write(&roots, authority.pem()).unwrap();
    let tls = format!("[epp]\ntls = \"required\"\ncert_path = \"{}\"\n", certificates.display());
    let sections = backend_config(&tls, backend.address());
    let recipe = Recipe::original_dst().with_tls(Some(&roots));
    let mut picker = Picker::start(recipe, &sections);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    // An open connection stays, and a new one gets the new certificate, which Envoy does not trust.
    write(&certificates, &Authority::new("other").issue(&["picker.example"]));
    picker.gateway.process.await_log(READ_AGAIN, 1);
    assert_eq!(picker.ask(&chat("m")).status, 200);
    let before = picker.gateway.process.log().matches(READ_AGAIN).count();
    write(&certificates, &authority.issue(&["picker.example"]));
    picker.gateway.process.await_log(READ_AGAIN, before + 1);
    picker.envoy.kill();
    picker.restart_envoy();
    assert_eq!(picker.ask(&chat("m")).status, 200);
}

#[test]
fn x04_x02_a_caller_without_tls_is_served_unless_tls_is_required() {
    let backend = Backend::quick();
    for (tls, is_served) in [("auto", true), ("off", true), ("required", false)] {
        let sections = backend_config(&format!("[epp]\ntls = \"{tls}\"\n"), backend.address());
        let gateway = Gateway::picker(&sections, FREE);
        gateway.await_ready(1);
        assert_eq!(is_answered(gateway.address()), is_served, "{tls}");
        // Health checks of Kubernetes speak no TLS.
        assert!(is_answered(gateway.process.addresses()[1]), "{tls}");
    }
}
