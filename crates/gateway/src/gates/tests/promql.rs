//! Queries to Prometheus, and the meaning of their results.

use proptest::prelude::*;

use crate::gates::prometheus::promql::{
    PromMetric, Sample, expression, first, known, least, no_sample, path, samples,
};

/// A response with these samples: the name of the part, the time of the query, the value.
fn response(samples: &[(&str, f64, &str)]) -> Vec<u8> {
    let sample = |(part, asked, value): &(&str, f64, &str)| {
        format!(r#"{{"metric":{{"tidegate":"{part}"}},"value":[{asked},"{value}"]}}"#)
    };
    let samples: Vec<String> = samples.iter().map(sample).collect();
    let samples = samples.join(",");
    let data = format!(r#"{{"resultType":"vector","result":[{samples}]}}"#);
    format!(r#"{{"status":"success","data":{data},"warnings":["x"]}}"#).into_bytes()
}

#[test]
fn d02_current_names_come_before_old_ones() {
    let names = |metrics: Vec<PromMetric>| -> Vec<String> {
        metrics.into_iter().map(|metric| metric.series).collect()
    };
    assert_eq!(
        names(PromMetric::saturations("p")),
        [
            "llm_d_epp_flow_control_pool_saturation{inference_pool=\"p\"}",
            "inference_extension_flow_control_pool_saturation{inference_pool=\"p\"}",
        ]
    );
    assert_eq!(
        names(PromMetric::loads("p").concat()),
        [
            "llm_d_epp_flow_control_queue_size{inference_pool=\"p\"}",
            "inference_extension_flow_control_queue_size{inference_pool=\"p\"}",
            "llm_d_epp_per_endpoint_queue_size{name=\"p\"}",
            "inference_pool_per_pod_queue_size{name=\"p\"}",
            "vllm:num_requests_running{inference_pool=\"p\"}",
            "llm_d_epp_average_running_requests{name=\"p\"}",
            "inference_pool_average_running_requests{name=\"p\"}",
            "vllm:kv_cache_usage_perc{inference_pool=\"p\"}",
            "llm_d_epp_average_kv_cache_utilization{name=\"p\"}",
            "inference_pool_average_kv_cache_utilization{name=\"p\"}",
            "llm_d_epp_flow_control_pool_saturation{inference_pool=\"p\"}",
            "inference_extension_flow_control_pool_saturation{inference_pool=\"p\"}",
        ]
    );
    let pool = ["llm_d_epp_ready_endpoints{name=\"p\"}", "inference_pool_ready_pods{name=\"p\"}"];
    assert_eq!(names(PromMetric::readies(Some("p"), None)), pool);
    let any = ["llm_d_epp_ready_endpoints", "inference_pool_ready_pods"];
    assert_eq!(names(PromMetric::readies(None, None)), any);
    assert_eq!(names(PromMetric::readies(Some("p"), Some("up"))), ["up"]);
    let error = no_sample(&PromMetric::readies(None, None)).to_string();
    assert!(error.ends_with(&any.join(", ")), "{error}");
}

#[test]
fn d02_a_pools_name_cannot_break_out_of_its_quotes() {
    let [metric, _] = &PromMetric::saturations("a\"} or up{b=\"\\\n")[..] else { panic!() };
    let text =
        "llm_d_epp_flow_control_pool_saturation{inference_pool=\"a\\\"} or up{b=\\\"\\\\\\n\"}";
    assert_eq!(metric.series, text);
}

#[test]
fn d02_a_query_is_one_expression_that_fits_into_a_url() {
    let query = expression(&PromMetric::readies(None, Some("up")));
    assert_eq!(
        query,
        "label_replace(max(sum by (job, instance) (up)) + 0 * sum(up), \"tidegate\", \"value 0\", \
         \"\", \"\") or label_replace(min(timestamp(up)), \"tidegate\", \"time 0\", \"\", \"\")"
    );
    assert_eq!(
        path("a{b=\"ü\"} + 1", None),
        "/api/v1/query?query=a%7Bb%3D%22%C3%BC%22%7D%20%2B%201"
    );
    assert!(path("up", Some(1.25)).ends_with("query=up&time=1.250"));
    let long = path(&expression(&PromMetric::loads(&"p".repeat(60)).concat()), None);
    assert!(long.len() < 8000, "{}", long.len());
}

#[test]
fn d02_the_first_metric_with_a_sample_counts_and_has_its_age() {
    let loads = PromMetric::loads("p")[..2].concat();
    let body = response(&[
        ("value 1", 1000.5, "30"),
        ("time 1", 1000.5, "998.25"),
        ("value 2", 1000.5, "5"),
        ("time 2", 1000.5, "1000"),
        ("value 0", 1000.5, "7"),
    ]);
    let samples = samples(&body, 4).unwrap();
    let found = first(&loads, &samples, true).unwrap();
    assert_eq!(found.metric, &loads[1], "the first has no time, so it does not count");
    assert_eq!((found.sample.value, found.sample.age, found.sample.taken), (30.0, 2.25, 998.25));
    let found = first(&loads, &samples, false).unwrap();
    assert_eq!(found.metric, &loads[2], "a total needs the number of servers");
    assert!(first(&loads, &[None; 4], true).is_none());
}

#[test]
fn d02_metrics_mean_the_same_as_upstream() {
    let loads = PromMetric::loads("p");
    let [queue, waiting, running, cache, _] = &loads[..] else { panic!("{loads:?}") };
    assert_eq!(queue[0].free(30.0, Some(20.0), Some(3.0)), 0.5, "of three servers");
    assert_eq!(waiting[0].free(5.0, Some(20.0), None), 0.75, "at each");
    assert_eq!(running[0].free(90.0, Some(20.0), Some(3.0)), -0.5, "more than there should be");
    assert_eq!(queue[0].free(0.0, Some(20.0), Some(0.0)), 0.0, "no server is ready");
    assert_eq!(cache[0].free(0.75, Some(20.0), None), 0.25);
    assert_eq!(PromMetric::saturations("p")[0].free(0.25, None, None), 0.75);
}

#[test]
fn d02_each_measure_that_has_a_sample_is_known_by_its_best_name() {
    let measures = PromMetric::loads("p");
    let mut all = [None; 12];
    let sample = |value| Some(Sample { value, age: 1.0, taken: 1.0 });
    // An old name of the queue, both names of the running requests, the last of the saturation.
    (all[1], all[4], all[5], all[11]) = (sample(1.0), sample(4.0), sample(5.0), sample(0.5));
    let values = |ready| -> Vec<f64> {
        known(&measures, &all, ready).iter().map(|known| known.sample.value).collect()
    };
    assert_eq!(values(true), [1.0, 4.0, 0.5]);
    assert_eq!(values(false), [5.0, 0.5], "totals need the number of servers");
}

#[test]
fn d06_results_that_make_no_sense_are_errors() {
    for (body, why) in [
        ("", "not from Prometheus"),
        ("<html>", "not from Prometheus"),
        ("{}", "not from Prometheus"),
        ("[]", "not from Prometheus"),
        (r#"{"status":"success"}"#, "refused: success"),
        (r#"{"status":"error","errorType":"timeout","error":"too slow"}"#, "refused: too slow"),
        (r#"{"status":"success","data":{"resultType":"new","result":[]}}"#, "not from Prometheus"),
        (
            r#"{"status":"success","data":{"resultType":"vector","result":5}}"#,
            "not from Prometheus",
        ),
    ] {
        for error in [samples(body.as_bytes(), 1).unwrap_err(), least(body.as_bytes()).unwrap_err()]
        {
            let error = error.to_string();
            assert!(error.contains(why), "{error} of {body}");
        }
    }
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}"#;
    let error = samples(scalar, 1).unwrap_err().to_string();
    assert!(error.contains("unexpected type"), "{error}");
    assert!(samples(&response(&[("value 0", 1.0, "x"), ("time 0", 1.0, "1")]), 1).is_err());
}

#[test]
fn d06_the_least_sample_of_an_expression_counts_and_each_must_be_a_number() {
    let scalar = br#"{"status":"success","data":{"resultType":"scalar","result":[1,"0.5"]}}"#;
    assert_eq!(least(scalar).unwrap(), 0.5);
    let body = response(&[("a", 1.0, "0.5"), ("b", 1.0, "-2"), ("c", 1.0, "1")]);
    assert_eq!(least(&body).unwrap(), -2.0);
    for bad in ["NaN", "+Inf", "-Inf"] {
        let body = response(&[("a", 1.0, "0.5"), ("b", 1.0, bad)]);
        let error = least(&body).unwrap_err().to_string();
        assert!(error.starts_with("the expression is "), "{bad}: {error}");
    }
    let error = |body: &[u8]| least(body).unwrap_err().to_string();
    assert_eq!(error(&response(&[])), "the expression gives no sample");
    let of = |kind: &str| {
        format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":[1,"x"]}}}}"#)
    };
    assert!(error(of("matrix").as_bytes()).contains("a range"));
    assert!(error(of("string").as_bytes()).contains("a text"));
}

proptest! {
    #[test]
    fn d06_no_response_causes_a_panic(body in r#"[{}\[\]",:a-z0-9. ]{0,80}"#, value in ".{0,9}") {
        _ = samples(body.as_bytes(), 3);
        _ = least(body.as_bytes());
        let value = value.replace(['"', '\\'], "");
        _ = samples(&response(&[("value 0", 1.0, &value), ("time 0", 1.0, &value)]), 1);
    }
}
