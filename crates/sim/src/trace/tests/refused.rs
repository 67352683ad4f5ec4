//! Texts that are no traces, and the words that refuse them.

use super::super::{Field, Limits, Trace, UNDERSTOOD};
use super::TABLE;

const HEADER: &str = "arrived_at_s,client,prompt_tokens,output_tokens\n1,a,2,3\n";
const AZURE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n";
const NOT_A_TIME: &str = "is not a time such as 2023-11-16 18:15:46.6805900";
const SMALL: Limits = Limits { rows: 2, clients: 1, line_bytes: 60 };

fn refusal(text: &str) -> String {
    Trace::parse(text).expect_err(text).to_string()
}

fn refusal_within(text: &str, limits: &Limits) -> String {
    Trace::parse_within(text, limits).expect_err(text).to_string()
}

/// The refusal of a second row below a good first one.
#[track_caller]
fn assert_row(row: &str, wanted: &str) {
    assert_eq!(refusal(&format!("{HEADER}{row}\n4,a,5,6\n")), wanted, "{row}");
}

#[track_caller]
fn assert_object(object: &str, wanted: &str) {
    let good = r#"{"timestamp": 5, "input_length": 1, "output_length": 1}"#;
    assert_eq!(refusal(&format!("{good}\n{object}\n{good}")), wanted, "{object}");
}

#[track_caller]
fn assert_wall(time: &str) {
    let wanted = format!("line 2, column TIMESTAMP: {time:?} {NOT_A_TIME}");
    assert_eq!(refusal(&format!("{AZURE}{time},1,1\n")), wanted);
}

#[test]
fn an_empty_text_is_refused() {
    for text in ["", "\u{feff}", "\n\n", "\r\n", "\u{feff}  \n"] {
        assert_eq!(
            refusal(text),
            format!("line 1: the first line is empty; expected {UNDERSTOOD}")
        );
    }
    assert!(refusal(&format!("\n{TABLE}")).starts_with("line 1: the first line is empty"));
}

#[test]
fn a_header_alone_is_refused() {
    assert_eq!(refusal(AZURE), "line 1: no rows follow the header");
}

#[test]
fn an_unknown_header_is_refused_with_those_that_are_known() {
    let wanted = format!("line 1: \"when,who\" is not understood; expected {UNDERSTOOD}");
    assert_eq!(refusal("when,who\n1,2\n"), wanted);
    assert!(UNDERSTOOD.contains("TIMESTAMP") && UNDERSTOOD.contains("arrived_at_s"));
    assert!(UNDERSTOOD.contains("hash_ids"));
}

#[test]
fn a_missing_column_is_named_with_its_other_names() {
    let wanted = "line 1, column prompt_tokens: missing in the header; it may also be called \
                  input_tokens or ContextTokens";
    assert_eq!(refusal("arrived_at_s,output_tokens\n1,2\n"), wanted);
    let wanted = "line 1, column arrived_at_s: missing in the header; it may also be called \
                  TIMESTAMP";
    assert_eq!(refusal("client,input_tokens,output_tokens\na,1,2\n"), wanted);
    let wanted = "line 1, column output_tokens: missing in the header; it may also be called \
                  GeneratedTokens";
    assert_eq!(refusal("TIMESTAMP,ContextTokens\n1,2\n"), wanted);
}

#[test]
fn a_column_that_stands_twice_is_refused() {
    let wanted = "line 1, column input_tokens: the columns 2 and 4 mean the same";
    assert_eq!(refusal("arrived_at_s,prompt_tokens,output_tokens,input_tokens\n"), wanted);
}

#[test]
fn a_row_that_is_too_short_or_too_long_is_refused() {
    assert_row("2,a,3", "line 3: 3 columns where the header has 4: \"2,a,3\"");
    assert_row("2,a,3,4,5", "line 3: 5 columns where the header has 4: \"2,a,3,4,5\"");
    assert_row(" ", "line 3: empty, with rows below it: take the line out");
    assert_row("2,\"a\",3,4", "line 3: quotation marks are not understood: write plain fields");
}

#[test]
fn counts_that_are_no_counts_are_refused() {
    let prompt = |count: &str, wanted: &str| {
        assert_row(&format!("2,a,{count},4"), &format!("line 3, column prompt_tokens: {wanted}"));
    };
    prompt("", "\"\" is not a whole number");
    prompt("many", "\"many\" is not a whole number");
    prompt("1.5", "\"1.5\" is not a whole number");
    prompt("+5", "\"+5\" is not a whole number");
    prompt("٣", "\"٣\" is not a whole number");
    prompt("NaN", "\"NaN\" is not a whole number");
    prompt("-1", "\"-1\" is negative");
    prompt("0", "\"0\" tokens cannot be served: leave the row out");
    prompt("10000001", "\"10000001\" is more than 10000000 tokens");
    prompt("4294967297", "\"4294967297\" is more than 10000000 tokens");
    prompt(&"9".repeat(30), &format!("\"{}\" is more than 10000000 tokens", "9".repeat(30)));
    assert_row(
        "2,a,3,0",
        "line 3, column output_tokens: \"0\" tokens cannot be served: leave the row out",
    );
}

#[test]
fn moments_that_are_no_moments_are_refused() {
    let time = |time: &str, wanted: &str| {
        assert_row(&format!("{time},a,3,4"), &format!("line 3, column arrived_at_s: {wanted}"));
    };
    time("", "\"\" is not a number");
    time("noon", "\"noon\" is not a number");
    time("NaN", "\"NaN\" is not a finite number");
    time("inf", "\"inf\" is not a finite number");
    time("1e999", "\"1e999\" is not a finite number");
    time("-0.1", "\"-0.1\" is negative");
    time("1787267980000", "\"1787267980000\" is centuries away: is it in another unit?");
}

#[test]
fn wall_times_that_do_not_exist_are_refused() {
    assert_wall("");
    assert_wall("1700158546");
    assert_wall("2023-02-29 00:00:00");
    assert_wall("2023-04-31 00:00:00");
    assert_wall("2023-13-01 00:00:00");
    assert_wall("2023-00-10 00:00:00");
    assert_wall("2023-01-00 00:00:00");
    assert_wall("2023-01-01-01 00:00:00");
    assert_wall("1969-12-31 23:59:59");
    assert_wall("2501-01-01 00:00:00");
    assert_wall("2023-01-01 24:00:00");
    assert_wall("2023-01-01 00:60:00");
    assert_wall("2023-01-01 00:00:60");
    assert_wall("2023-01-01 00:00");
    assert_wall("2023-01-01 00:00:00:00");
    assert_wall("2023-01-01 00:00:00.");
    assert_wall("2023-01-01 00:00:00.1234567890");
    assert_wall("2023-01-01 00:00:00.+5");
    assert_wall("2023-1-01 00:00:00");
    assert_wall("2023-01-01 00:00:00+02:00");
}

#[test]
fn clients_without_a_printable_name_are_refused() {
    assert_row("2,,3,4", "line 3, column client: empty: every row needs a client, or none");
    assert_row("2,a\u{1b}[2J,3,4", r#"line 3, column client: "a\u{1b}[2J" has control characters"#);
}

#[test]
fn rows_that_go_back_in_time_are_refused() {
    let wanted =
        "line 3, column arrived_at_s: arrives before line 2: sort the file by arrived_at_s";
    assert_row("0.5,a,2,3", wanted);
    assert_object(
        r#"{"timestamp": 4, "input_length": 1, "output_length": 1}"#,
        "line 2, key timestamp: arrives before line 1: sort the file by timestamp",
    );
}

#[test]
fn broken_json_is_refused_where_it_breaks() {
    assert_object(
        "{\"timestamp\": 6,",
        "line 2: broken JSON at byte 16: EOF while parsing a value",
    );
    assert_object("{} {}", "line 2: broken JSON at byte 4: trailing characters");
    assert_object("[6, 1, 1, []]", "line 2: \"[6, 1, 1, []]\" is not an object");
    assert_object("", "line 2: empty, with rows below it: take the line out");
    let deep = format!("{{\"timestamp\": {}", "[".repeat(5000));
    assert!(refusal(&deep).starts_with("line 1: broken JSON"), "{}", refusal(&deep));
    let twice = r#"{"timestamp": 6, "timestamp": 7, "input_length": 1, "output_length": 1}"#;
    assert_object(twice, "line 2: broken JSON at byte 28: duplicate field `timestamp`");
}

#[test]
fn keys_that_are_missing_or_wrong_are_named() {
    let object = |time: &str, input: &str, output: &str| {
        format!("{{\"timestamp\": {time}, \"input_length\": {input}, \"output_length\": {output}}}")
    };
    assert_object("{\"input_length\": 1, \"output_length\": 1}", "line 2, key timestamp: missing");
    assert_object("{\"timestamp\": 6}", "line 2, key input_length: missing");
    assert_object(&object("6", "1", "null"), "line 2, key output_length: missing");
    assert_object(&object("[]", "1", "1"), "line 2, key timestamp: \"[]\" is not a number");
    assert_object(&object("-6", "1", "1"), "line 2, key timestamp: \"-6\" is negative");
    assert_object(
        &object("10000000000001", "1", "1"),
        "line 2, key timestamp: \"10000000000001\" is centuries away: is it in another unit?",
    );
    assert_object(
        &object("6", "0", "1"),
        "line 2, key input_length: 0 tokens cannot be served: leave the row out",
    );
    assert_object(&object("6", "-2", "1"), "line 2, key input_length: \"-2\" is negative");
    assert_object(
        &object("6", "2.5", "1"),
        "line 2, key input_length: \"2.5\" is not a whole number",
    );
    assert_object(
        &object("6", "1", "10000001"),
        "line 2, key output_length: 10000001 is more than 10000000 tokens",
    );
}

#[test]
fn segments_that_cannot_be_are_refused() {
    let object = |ids: &str| {
        format!(
            "{{\"timestamp\": 6, \"input_length\": 513, \"output_length\": 1, \"hash_ids\": {ids}}}"
        )
    };
    assert_object(&object("7"), "line 2, key hash_ids: not a list of numbers");
    assert_object(&object("[1, -1]"), "line 2, key hash_ids: \"-1\" is not a whole number");
    assert_object(
        &object("[1, 2, 3]"),
        "line 2, key hash_ids: 3 ids, but a prompt of 513 tokens has 2 segments of 512",
    );
}

#[test]
fn too_many_rows_and_clients_are_refused() {
    let rows = "arrived_at_s,prompt_tokens,output_tokens\n1,1,1\n1,1,1\n1,1,1\n";
    assert_eq!(refusal_within(rows, &SMALL), "line 4: more than 2 rows");
    assert_eq!(refusal_within(TABLE, &SMALL), "line 3, column client: more than 1 clients");
}

#[test]
fn a_line_that_is_too_long_is_quoted_only_at_its_beginning() {
    let long = "é".repeat(40);
    let row = format!("arrived_at_s,prompt_tokens,output_tokens\n{long}\n");
    let wanted = format!("line 2: 80 bytes long, at most 60 are read: \"{long}\"");
    assert_eq!(refusal_within(&row, &SMALL), wanted);
    let endless = format!("x{}", "é".repeat(1 << 20));
    let wanted =
        format!("line 1: 2097153 bytes long, at most 1048576 are read: \"x{}\"...", "é".repeat(59));
    assert_eq!(refusal(&endless), wanted);
}

#[test]
fn an_error_can_be_taken_apart() {
    let error = Trace::parse("arrived_at_s,output_tokens\n").unwrap_err();
    assert_eq!((error.line, error.field), (1, Some(Field::Column("prompt_tokens"))));
    let error: Box<dyn std::error::Error> = Box::new(error);
    assert!(error.to_string().contains("column prompt_tokens"));
}
