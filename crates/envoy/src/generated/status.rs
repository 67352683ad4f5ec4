//! Envoy's name for the status of a response.
//!
//! Generated from `proto/envoy/type/v3/http_status.proto`.

/// The status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, prost::Message)]
pub struct HttpStatus {
    /// Its code.
    #[prost(enumeration = "StatusCode", tag = "1")]
    pub code: i32,
}
/// A status of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum StatusCode {
    /// None: Envoy refuses it.
    Empty = 0,
    /// 200.
    Ok = 200,
    /// 400.
    BadRequest = 400,
    /// 401.
    Unauthorized = 401,
    /// 403.
    Forbidden = 403,
    /// 404.
    NotFound = 404,
    /// 405.
    MethodNotAllowed = 405,
    /// 408.
    RequestTimeout = 408,
    /// 413.
    PayloadTooLarge = 413,
    /// 429.
    TooManyRequests = 429,
    /// 431.
    RequestHeaderFieldsTooLarge = 431,
    /// 500.
    InternalServerError = 500,
    /// 502.
    BadGateway = 502,
    /// 503.
    ServiceUnavailable = 503,
    /// 504.
    GatewayTimeout = 504,
}
impl StatusCode {
    /// String value of the enum field names used in the ProtoBuf definition.
    ///
    /// The values are not transformed in any way and thus are considered stable
    /// (if the ProtoBuf definition does not change) and safe for programmatic use.
    pub fn as_str_name(&self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::Ok => "OK",
            Self::BadRequest => "BadRequest",
            Self::Unauthorized => "Unauthorized",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "NotFound",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::RequestTimeout => "RequestTimeout",
            Self::PayloadTooLarge => "PayloadTooLarge",
            Self::TooManyRequests => "TooManyRequests",
            Self::RequestHeaderFieldsTooLarge => "RequestHeaderFieldsTooLarge",
            Self::InternalServerError => "InternalServerError",
            Self::BadGateway => "BadGateway",
            Self::ServiceUnavailable => "ServiceUnavailable",
            Self::GatewayTimeout => "GatewayTimeout",
        }
    }
    /// Creates an enum from field names used in the ProtoBuf definition.
    pub fn from_str_name(value: &str) -> Option<Self> {
        match value {
            "Empty" => Some(Self::Empty),
            "OK" => Some(Self::Ok),
            "BadRequest" => Some(Self::BadRequest),
            "Unauthorized" => Some(Self::Unauthorized),
            "Forbidden" => Some(Self::Forbidden),
            "NotFound" => Some(Self::NotFound),
            "MethodNotAllowed" => Some(Self::MethodNotAllowed),
            "RequestTimeout" => Some(Self::RequestTimeout),
            "PayloadTooLarge" => Some(Self::PayloadTooLarge),
            "TooManyRequests" => Some(Self::TooManyRequests),
            "RequestHeaderFieldsTooLarge" => Some(Self::RequestHeaderFieldsTooLarge),
            "InternalServerError" => Some(Self::InternalServerError),
            "BadGateway" => Some(Self::BadGateway),
            "ServiceUnavailable" => Some(Self::ServiceUnavailable),
            "GatewayTimeout" => Some(Self::GatewayTimeout),
            _ => None,
        }
    }
}
