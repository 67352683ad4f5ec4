//! What an autoscaler asks.
//!
//! Generated from `proto/externalscaler/externalscaler.proto`.

/// The object that a trigger belongs to.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ScaledObjectRef {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The metadata of the trigger.
    #[prost(btree_map = "string, string", tag = "3")]
    pub scaler_metadata: std::collections::BTreeMap<String, String>,
}
/// Whether there is any load.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct IsActiveResponse {
    /// Whether there is.
    #[prost(bool, tag = "1")]
    pub result: bool,
}
/// The metrics of a trigger.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricSpecResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub metric_specs: Vec<MetricSpec>,
}
/// A metric and its target.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricSpec {
    /// Its name.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// The value that one replica carries, in whole numbers.
    #[prost(int64, tag = "2")]
    pub target_size: i64,
    /// The value that one replica carries; it goes before the other.
    #[prost(double, tag = "3")]
    pub target_size_float: f64,
}
/// Asks for the values of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsRequest {
    /// The object of the trigger.
    #[prost(message, optional, tag = "1")]
    pub scaled_object_ref: Option<ScaledObjectRef>,
    /// The name of the metric.
    #[prost(string, tag = "2")]
    pub metric_name: String,
}
/// The values of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct GetMetricsResponse {
    /// Each of them.
    #[prost(message, repeated, tag = "1")]
    pub metric_values: Vec<MetricValue>,
}
/// The value of a metric.
#[derive(Clone, PartialEq, prost::Message)]
pub struct MetricValue {
    /// The name of the metric.
    #[prost(string, tag = "1")]
    pub metric_name: String,
    /// Its value in whole numbers.
    #[prost(int64, tag = "2")]
    pub metric_value: i64,
    /// Its value; it goes before the other.
    #[prost(double, tag = "3")]
    pub metric_value_float: f64,
}
