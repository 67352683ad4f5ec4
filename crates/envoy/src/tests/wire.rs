//! Messages against bytes that the official Python stubs wrote (xds-protos 1.85,
//! grpcio-health-checking and grpcio-reflection 1.85). The numbers of Envoy 1.40 were compared with
//! go-control-plane/envoy 1.40.

use std::fmt::Debug;

use prost::Message;
use prost::bytes::Bytes;
use prost_types::value::Kind;
use prost_types::{Duration, FileDescriptorSet, ListValue, Struct, Value};

use crate::base::{HeaderMap, HeaderValue, HeaderValueOption, Metadata};
use crate::ext_proc::body_mutation::Mutation;
use crate::ext_proc::processing_request::Request;
use crate::ext_proc::processing_response::Response;
use crate::ext_proc::{
    BodyMutation, BodyResponse, CommonResponse, GrpcStatus, HeaderMutation, HeadersResponse,
    HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse, ProcessingRequest, ProcessingResponse,
    ProtocolConfiguration, StreamedBodyResponse, TrailersResponse,
};
use crate::health::{HealthCheckRequest, HealthCheckResponse, HealthListResponse};
use crate::mode::ProcessingMode;
use crate::reflection::server_reflection_request::MessageRequest;
use crate::reflection::server_reflection_response::MessageResponse;
use crate::reflection::{
    ErrorResponse, ExtensionNumberResponse, ExtensionRequest, FileDescriptorResponse,
    ListServiceResponse, ServerReflectionRequest, ServerReflectionResponse, ServiceResponse,
};
use crate::status::HttpStatus;

fn unhex(text: &str) -> Bytes {
    let digits = (0..text.len()).step_by(2).map(|at| &text[at..at + 2]);
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// The message has these bytes, in both directions.
fn same<M: Message + Default + PartialEq + Debug>(message: M, hex: &str) {
    let bytes = unhex(hex);
    assert_eq!(M::decode(bytes.clone()).unwrap(), message);
    assert_eq!(Bytes::from(message.encode_to_vec()), bytes, "{message:?}");
}

fn from_envoy(request: Request) -> ProcessingRequest {
    ProcessingRequest { request: Some(request), ..Default::default() }
}

fn to_envoy(response: Response) -> ProcessingResponse {
    ProcessingResponse { response: Some(response), ..Default::default() }
}

fn header(key: &str, raw: &'static str) -> HeaderValue {
    HeaderValue { key: key.into(), raw_value: Bytes::from_static(raw.as_bytes()), ..<_>::default() }
}

fn trailers() -> HeaderMap {
    let header = HeaderValue { key: "t".into(), value: "u".into(), ..Default::default() };
    HeaderMap { headers: vec![header] }
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

fn fields(name: &str, kind: Kind) -> Struct {
    Struct { fields: [(name.to_owned(), value(kind))].into() }
}

fn endpoint() -> Kind {
    Kind::StringValue("1.2.3.4:80".into())
}

#[test]
fn a_request_with_everything_around_it() {
    let list = Kind::ListValue(ListValue { values: vec![value(endpoint())] });
    let request = ProcessingRequest {
        metadata_context: Some(Metadata {
            filter_metadata: [("envoy.lb".to_owned(), fields("k", list))].into(),
        }),
        observability_mode: true,
        protocol_config: Some(ProtocolConfiguration {
            request_body_mode: 4,
            response_body_mode: 4,
            send_body_without_waiting_for_header_response: true,
        }),
        request: Some(Request::RequestHeaders(HttpHeaders {
            headers: Some(HeaderMap { headers: vec![header(":path", "/v1")] }),
            end_of_stream: true,
        })),
    };
    let before = "12120a0e0a0c0a053a706174681a032f7631180142250a230a08656e766f792e6c6212170a150a01\
                  6b1210320e0a0c1a0a312e322e332e343a3830";
    let after = "50015a06080410041801";
    same(request.clone(), &format!("{before}{after}"));
    // Attributes are no field of ours: what is not known is skipped.
    let attributes = "4a150a016112100a0e0a0162120911000000000000f03f";
    let whole = unhex(&format!("{before}{attributes}{after}"));
    assert_eq!(ProcessingRequest::decode(whole).unwrap(), request);
}

#[test]
fn parts_of_an_exchange() {
    let piece = HttpBody { body: "abc".into(), end_of_stream: true, ..Default::default() };
    same(from_envoy(Request::RequestBody(piece.clone())), "22070a036162631001");
    same(from_envoy(Request::ResponseBody(piece)), "2a070a036162631001");
    let grpc = HttpBody {
        end_of_stream_without_message: true,
        grpc_message_compressed: true,
        ..Default::default()
    };
    same(from_envoy(Request::RequestBody(grpc)), "220418012001");
    let end = HttpTrailers { trailers: Some(trailers()) };
    same(from_envoy(Request::RequestTrailers(end.clone())), "320a0a080a060a0174120175");
    same(from_envoy(Request::ResponseTrailers(end)), "3a0a0a080a060a0174120175");
    let head = HttpHeaders { end_of_stream: true, ..Default::default() };
    same(from_envoy(Request::ResponseHeaders(head)), "1a021801");
}

#[test]
fn a_response_to_a_head() {
    let mutation = HeaderMutation {
        set_headers: vec![HeaderValueOption {
            header: Some(header("k", "v")),
            append_action: 2,
            keep_empty_value: true,
        }],
        remove_headers: vec!["gone".into()],
    };
    let common = CommonResponse {
        header_mutation: Some(mutation),
        clear_route_cache: true,
        ..Default::default()
    };
    let inner = Kind::StructValue(fields("e", endpoint()));
    let answer = ProcessingResponse {
        dynamic_metadata: Some(fields("n", inner)),
        mode_override: Some(ProcessingMode {
            request_header_mode: 1,
            response_header_mode: 2,
            request_body_mode: 4,
            response_body_mode: 0,
            request_trailer_mode: 1,
            response_trailer_mode: 2,
        }),
        override_message_timeout: Some(Duration { seconds: 5, nanos: 0 }),
        response: Some(Response::RequestHeaders(HeadersResponse { response: Some(common) })),
    };
    same(
        answer,
        "0a1a0a1812140a0c0a060a016b1a0176180220011204676f6e652801421c0a1a0a016e12152a130a110a0165\
         120c1a0a312e322e332e343a38304a0a0801100218042801300252020805",
    );
}

#[test]
fn responses_to_bodies_and_trailers() {
    let body = |mutation| BodyResponse {
        response: Some(CommonResponse {
            body_mutation: Some(BodyMutation { mutation: Some(mutation) }),
            ..Default::default()
        }),
    };
    let piece = StreamedBodyResponse { body: "abc".into(), end_of_stream: true };
    let piece = Mutation::StreamedResponse(piece);
    let request = to_envoy(Response::RequestBody(body(piece.clone())));
    same(request, "1a0d0a0b1a091a070a036162631001");
    same(to_envoy(Response::ResponseBody(body(piece))), "220d0a0b1a091a070a036162631001");
    same(to_envoy(Response::ResponseBody(body(Mutation::ClearBody(true)))), "22060a041a021001");
    let whole = CommonResponse {
        status: 1,
        body_mutation: Some(BodyMutation { mutation: Some(Mutation::Body("x".into())) }),
        trailers: Some(trailers()),
        ..Default::default()
    };
    let whole = to_envoy(Response::ResponseHeaders(HeadersResponse { response: Some(whole) }));
    same(whole, "12130a1108011a030a017822080a060a0174120175");
    let mutation = HeaderMutation { remove_headers: vec!["t".into()], ..Default::default() };
    let end = TrailersResponse { header_mutation: Some(mutation) };
    same(to_envoy(Response::RequestTrailers(end.clone())), "2a050a03120174");
    same(to_envoy(Response::ResponseTrailers(end)), "32050a03120174");
}

#[test]
fn an_immediate_response() {
    let option = HeaderValueOption { header: Some(header("retry-after", "3")), ..<_>::default() };
    let immediate = ImmediateResponse {
        status: Some(HttpStatus { code: 429 }),
        headers: Some(HeaderMutation { set_headers: vec![option], remove_headers: vec![] }),
        body: "{}".into(),
        grpc_status: Some(GrpcStatus { status: 8 }),
        details: "full".into(),
    };
    same(
        to_envoy(Response::ImmediateResponse(immediate)),
        "3a290a0308ad0312140a120a100a0b72657472792d61667465721a01331a027b7d220208082a0466756c6c",
    );
}

#[test]
fn the_health_of_services() {
    same(HealthCheckRequest { service: "liveness".into() }, "0a086c6976656e657373");
    same(HealthCheckResponse { status: 2 }, "0802");
    let statuses = [("a".to_owned(), HealthCheckResponse { status: 1 })].into();
    same(HealthListResponse { statuses }, "0a070a016112020801");
}

#[test]
fn questions_of_reflection() {
    let ask =
        |question| ServerReflectionRequest { host: String::new(), message_request: Some(question) };
    same(ask(MessageRequest::FileByFilename("s".into())), "1a0173");
    same(ask(MessageRequest::FileContainingSymbol("s".into())), "220173");
    same(ask(MessageRequest::AllExtensionNumbersOfType("s".into())), "320173");
    same(ask(MessageRequest::ListServices("s".into())), "3a0173");
    let extension = ExtensionRequest { containing_type: "t".into(), extension_number: 7 };
    same(ask(MessageRequest::FileContainingExtension(extension)), "2a050a01741007");
}

#[test]
fn responses_of_reflection() {
    let question = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices("*".into())),
    };
    let answer =
        |answer| ServerReflectionResponse { message_response: Some(answer), ..Default::default() };
    let services = ListServiceResponse { service: vec![ServiceResponse { name: "S".into() }] };
    let services = ServerReflectionResponse {
        valid_host: "h".into(),
        original_request: Some(question),
        message_response: Some(MessageResponse::ListServicesResponse(services)),
    };
    same(services, "0a016812033a012a32050a030a0153");
    let files = FileDescriptorResponse { file_descriptor_proto: vec!["f".into(), "g".into()] };
    same(answer(MessageResponse::FileDescriptorResponse(files)), "22060a01660a0167");
    let error = ErrorResponse { error_code: 12, error_message: "no".into() };
    same(answer(MessageResponse::ErrorResponse(error)), "3a06080c12026e6f");
    let numbers =
        ExtensionNumberResponse { base_type_name: "t".into(), extension_number: vec![1, 300] };
    same(answer(MessageResponse::AllExtensionNumbersResponse(numbers)), "2a080a0174120301ac02");
}

#[test]
fn a_body_is_decoded_without_a_copy() {
    let message = unhex("22070a036162631001");
    let decoded = ProcessingRequest::decode(message.clone()).unwrap();
    let Some(Request::RequestBody(piece)) = decoded.request else { panic!("{decoded:?}") };
    assert_eq!(piece.body.as_ptr(), message[4..].as_ptr());
}

#[test]
fn every_file_is_described_after_those_it_imports() {
    let described = FileDescriptorSet::decode(crate::DESCRIPTORS).unwrap().file;
    for (at, file) in described.iter().enumerate() {
        for import in &file.dependency {
            let known = described[..at].iter().any(|earlier| earlier.name() == import);
            assert!(known, "{} needs {import}", file.name());
        }
    }
    let services = described.iter().flat_map(|file| {
        file.service.iter().map(|service| format!("{}.{}", file.package(), service.name()))
    });
    let services: Vec<String> = services.collect();
    assert_eq!(
        services,
        [
            "envoy.service.ext_proc.v3.ExternalProcessor",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"
        ]
    );
}
