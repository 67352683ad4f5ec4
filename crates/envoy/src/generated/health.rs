//! The health of services.
//!
//! Generated from `proto/grpc/health/v1/health.proto`.

/// Asks for the health of a service.
#[derive(Clone, PartialEq, Eq, Hash, prost::Message)]
pub struct HealthCheckRequest {
    /// Its name; empty for the whole server.
    #[prost(string, tag = "1")]
    pub service: String,
}
/// The health of a service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HealthCheckResponse {
    /// Whether the service takes calls.
    #[prost(enumeration = "health_check_response::ServingStatus", tag = "1")]
    pub status: i32,
}
/// Nested message and enum types in `HealthCheckResponse`.
pub mod health_check_response {
    /// Whether a service takes calls.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
    #[repr(i32)]
    pub enum ServingStatus {
        /// Not known yet.
        Unknown = 0,
        /// It takes calls.
        Serving = 1,
        /// It takes none.
        NotServing = 2,
        /// There is no such service. Only where it is watched.
        ServiceUnknown = 3,
    }
    impl ServingStatus {
        /// String value of the enum field names used in the ProtoBuf definition.
        ///
        /// The values are not transformed in any way and thus are considered stable
        /// (if the ProtoBuf definition does not change) and safe for programmatic use.
        pub fn as_str_name(&self) -> &'static str {
            match self {
                Self::Unknown => "UNKNOWN",
                Self::Serving => "SERVING",
                Self::NotServing => "NOT_SERVING",
                Self::ServiceUnknown => "SERVICE_UNKNOWN",
            }
        }
        /// Creates an enum from field names used in the ProtoBuf definition.
        pub fn from_str_name(value: &str) -> Option<Self> {
            match value {
                "UNKNOWN" => Some(Self::Unknown),
                "SERVING" => Some(Self::Serving),
                "NOT_SERVING" => Some(Self::NotServing),
                "SERVICE_UNKNOWN" => Some(Self::ServiceUnknown),
                _ => None,
            }
        }
    }
}
/// Asks for the health of every service.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HealthListRequest {}
/// The health of every service.
#[derive(Clone, PartialEq, prost::Message)]
pub struct HealthListResponse {
    /// By name.
    #[prost(btree_map = "string, message", tag = "1")]
    pub statuses: std::collections::BTreeMap<String, HealthCheckResponse>,
}
