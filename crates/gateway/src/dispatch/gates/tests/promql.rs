//! What is asked of Prometheus, and what its answers mean.

use proptest::prelude::*;

use super::super::promql::{PromMetric, first, least, missing, numbers, path, question};

/// An answer with these samples: the part's name, when it was asked and what it is.
fn answer(samples: &[(&str, f64, &str)]) -> Vec<u8> {
    let sample = |(part, asked, value): &(&str, f64, &str)| {
        format!(r#"{{"metric":{{"tidegate":"{part}"}},"value":[{asked},"{value}"]}}"#)
    };
    let samples: Vec<String> = samples.iter().map(sample).collect();
    let samples = samples.join(",");
    let data = format!(r#"{{"resultType":"vector","result":[{samples}]}}"#);
    format!(r#"{{"status":"success","data":{data},"warnings":["x"]}}"#).into_bytes()
}

#[test]
fn d02_names_of_today_come_before_those_of_before() {
    let names = |numbers: Vec<PromMetric>| -> Vec<String> {
        numbers.into_iter().map(|number| number.series).collect()
    };
    assert_eq!(
        names(PromMetric::saturations("p")),
        [
            "llm_d_epp_flow_control_pool_saturation{inference_pool=\"p\"}",
            "inference_extension_flow_control_pool_saturation{inference_pool=\"p\"}",
        ]
    );
    assert_eq!(
        names(PromMetric::loads("p")),
        [
            "llm_d_epp_flow_control_queue_size{inference_pool=\"p\"}",
            "inference_extension_flow_control_queue_size{inference_pool=\"p\"}",
            "llm_d_epp_per_endpoint_queue_size{name=\"p\"}",
            "inference_pool_per_pod_queue_size{name=\"p\"}",
            "vllm:num_requests_running{inference_pool=\"p\"}",
        ]
    );
    let pool = ["llm_d_epp_ready_endpoints{name=\"p\"}", "inference_pool_ready_pods{name=\"p\"}"];
    assert_eq!(names(PromMetric::readies(Some("p"), None)), pool);
    let any = ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"];
    assert_eq!(names(PromMetric::readies(None, None)), any);
    assert_eq!(names(PromMetric::readies(Some("p"), Some("up"))), ["up"]);
    assert!(missing(&PromMetric::readies(None, None)).ends_with(&any.join(", ")));
}

#[test]
fn d02_a_pools_name_cannot_break_out_of_its_quotes() {
    let [number, _] = &PromMetric::saturations("a\"} or up{b=\"\\\n")[..] else { panic!() };
    let text =
        "llm_d_epp_flow_control_pool_saturation{inference_pool=\"a\\\"} or up{b=\\\"\\\\\\n\"}";
    assert_eq!(number.series, text);
}

#[test]
fn d02_a_question_is_one_expression_that_any_url_can_hold() {
    let asked = question(&PromMetric::readies(None, Some("up")));
    assert_eq!(
        asked,
        "label_replace(max(sum by (job, instance) (up)) + 0 * sum(up), \"tidegate\", \"value 0\", \
         \"\", \"\") or label_replace(min(timestamp(up)), \"tidegate\", \"time 0\", \"\", \"\")"
    );
    assert_eq!(path("a{b=\"ü\"} + 1"), "/api/v1/query?query=a%7Bb%3D%22%C3%BC%22%7D%20%2B%201");
    let long = path(&question(&PromMetric::loads(&"p".repeat(60))));
    assert!(long.len() < 8000, "{}", long.len());
}

#[test]
fn d02_the_first_number_with_a_sample_counts_and_says_how_old_it_is() {
    let loads = PromMetric::loads("p");
    let body = answer(&[
        ("value 1", 1000.5, "30"),
        ("time 1", 1000.5, "998.25"),
        ("value 2", 1000.5, "5"),
        ("time 2", 1000.5, "1000"),
        ("value 0", 1000.5, "7"),
    ]);
    let samples = numbers(&body, 5).unwrap();
    let found = first(&loads, &samples, true).unwrap();
    assert_eq!(found.number, &loads[1], "the first has no time, so it is not there");
    assert_eq!((found.sample.value, found.sample.age, found.sample.taken), (30.0, 2.25, 998.25));
    let found = first(&loads, &samples, false).unwrap();
    assert_eq!(found.number, &loads[2], "what is at all servers says nothing without their number");
    assert!(first(&loads, &[None; 5], true).is_none());
}

#[test]
fn d02_numbers_mean_what_they_mean_upstream() {
    let loads = PromMetric::loads("p");
    assert_eq!(loads[0].free(30.0, Some(20.0), Some(3.0)), 0.5, "of three servers");
    assert_eq!(loads[2].free(5.0, Some(20.0), None), 0.75, "at each");
    assert_eq!(loads[4].free(90.0, Some(20.0), Some(3.0)), -0.5, "more than there should be");
    assert_eq!(loads[0].free(0.0, Some(20.0), Some(0.0)), 0.0, "no server is ready");
    assert_eq!(PromMetric::saturations("p")[0].free(0.25, None, None), 0.75);
}

#[test]
fn d06_answers_that_make_no_sense_are_errors() {
    for (body, why) in [
        ("", "not Prometheus's"),
        ("<html>", "not Prometheus's"),
        ("{}", "not Prometheus's"),
        ("[]", "not Prometheus's"),
        (r#"{"status":"success"}"#, "refused: success"),
        (r#"{"status":"error","errorType":"timeout","error":"too slow"}"#, "refused: too slow"),
        (r#"{"status":"success","data":{"resultType":"new","result":[]}}"#, "not Prometheus's"),
        (r#"{"status":"success","data":{"resultType":"vector","result":5}}"#, "not Prometheus's"),
    ] {
        for error in [numbers(body.as_bytes(), 1).unwrap_err(), least(body.as_bytes()).unwrap_err()]
        {
            assert!(error.contains(why), "{error} of {body}");
        }
    }
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#;
    assert!(numbers(scalar, 1).unwrap_err().contains("something else"));
    assert!(numbers(&answer(&[("value 0", 1.0, "x"), ("time 0", 1.0, "1")]), 1).is_err());
}

#[test]
fn d06_of_an_expression_the_least_sample_decides_and_every_one_must_be_a_number() {
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}"#;
    assert_eq!(least(scalar), Ok(0.5));
    assert_eq!(least(&answer(&[("a", 1.0, "0.5"), ("b", 1.0, "-2"), ("c", 1.0, "1")])), Ok(-2.0));
    for bad in ["NaN", "+Inf", "-Inf"] {
        let body = answer(&[("a", 1.0, "0.5"), ("b", 1.0, bad)]);
        assert!(least(&body).unwrap_err().starts_with("the expression is "), "{bad}");
    }
    assert_eq!(least(&answer(&[])), Err("the expression gives no sample".into()));
    let of = |kind: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":[1,"x"]}}}}"#)
    };
    assert!(least(of("matrix").as_bytes()).unwrap_err().contains("a range"));
    assert!(least(of("string").as_bytes()).unwrap_err().contains("a text"));
}

proptest! {
    #[test]
    fn d06_no_answer_is_too_strange(body in r#"[{}\[\]",:a-z0-9. ]{0,80}"#, value in ".{0,9}") {
        _ = numbers(body.as_bytes(), 3);
        _ = least(body.as_bytes());
        let value = value.replace(['"', '\\'], "");
        _ = numbers(&answer(&[("value 0", 1.0, &value), ("time 0", 1.0, &value)]), 1);
    }
}
