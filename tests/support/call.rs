//! A client that can send any bytes and reads a response piece by piece.
//!
//! A call is one connection. It reads nothing before the test asks for it, so one thread can have
//! hundreds of waiting clients.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};

use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::wait::BOUND;

/// A connection to the gateway with a request on its way.
#[derive(Debug)]
pub(crate) struct Call {
    from: BufReader<TcpStream>,
    head: Option<Head>,
}

/// The head of a response.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
}

/// A whole response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

enum Framing {
    Length(usize),
    Chunked,
    UntilClose,
}

/// The value of a header; `name` in lower case.
pub(crate) fn value<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
}

fn broken(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// The result of a read. The end of a connection is a result, a timeout is not.
fn heard<T>(read: io::Result<T>) -> io::Result<T> {
    if let Err(error) = &read {
        let silent = matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut);
        assert!(!silent, "nothing came for {BOUND:?}");
    }
    read
}

// === impl Call ===

impl Call {
    /// Connects and sends these bytes, which need not be a complete or valid request.
    pub(crate) fn open(to: SocketAddr, bytes: &[u8]) -> Self {
        Self::try_open(to, bytes).unwrap()
    }

    /// The same from an address of this machine, such as 127.0.0.2.
    pub(crate) fn open_from(from: [u8; 4], to: SocketAddr, bytes: &[u8]) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&to.into()).unwrap();
        Self::on(socket.into(), bytes).unwrap()
    }

    /// The same to a process that may be dead.
    pub(crate) fn try_open(to: SocketAddr, bytes: &[u8]) -> io::Result<Self> {
        Self::on(TcpStream::connect(to)?, bytes)
    }

    fn on(stream: TcpStream, bytes: &[u8]) -> io::Result<Self> {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(BOUND)).unwrap();
        stream.set_write_timeout(Some(BOUND)).unwrap();
        let mut call = Self { from: BufReader::new(stream), head: None };
        call.send(bytes)?;
        Ok(call)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.from.get_mut().write_all(bytes)
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        self.from.get_ref()
    }

    /// Ends the sending direction.
    pub(crate) fn end(&self) {
        // The gateway may have closed the connection already.
        let _ = self.stream().shutdown(Shutdown::Write);
    }

    /// Whether the response has begun, or the connection has ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.stream().set_nonblocking(true).unwrap();
        let peeked = self.stream().peek(&mut [0]);
        self.stream().set_nonblocking(false).unwrap();
        !peeked.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Waits for the head of the response.
    pub(crate) fn head(&mut self) -> Head {
        self.try_head().unwrap()
    }

    pub(crate) fn try_head(&mut self) -> io::Result<Head> {
        if self.head.is_none() {
            let mut head = self.read_head()?;
            while head.status == 100 {
                head = self.read_head()?;
            }
            self.head = Some(head);
        }
        self.head.clone().ok_or_else(|| broken("no head"))
    }

    fn read_head(&mut self) -> io::Result<Head> {
        let line = self.line()?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| broken(format!("no status line: {line:?}")))?;
        Ok(Head { status, headers: self.fields()? })
    }

    fn fields(&mut self) -> io::Result<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { return Ok(fields) };
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if heard(self.from.read_line(&mut line))? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }

    /// The next line and the empty line after it: the head of an interim response.
    pub(crate) fn status_line(&mut self) -> String {
        let line = self.line().unwrap();
        assert_eq!(self.line().unwrap(), "");
        line
    }

    /// The next chunk of a chunked response; `None` at its end.
    pub(crate) fn chunk(&mut self) -> Option<Vec<u8>> {
        self.head();
        self.try_chunk().unwrap()
    }

    pub(crate) fn try_chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(&line, 16).map_err(|_| broken(format!("{line:?}")))?;
        if size == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; size + 2];
        heard(self.from.read_exact(&mut chunk))?;
        chunk.truncate(size);
        Ok(Some(chunk))
    }

    /// Reads the rest of the response.
    /// Reads the chunks of a response until its connection is cut.
    pub(crate) fn read_until_cut(mut self) -> String {
        assert_eq!(self.head().status, 200);
        let mut text = Vec::new();
        loop {
            match self.try_chunk() {
                Ok(Some(chunk)) => text.extend(chunk),
                Ok(None) => panic!("the response seems whole: {}", String::from_utf8_lossy(&text)),
                Err(_) => return String::from_utf8(text).unwrap(),
            }
        }
    }

    pub(crate) fn finish(mut self) -> Response {
        self.answer().unwrap()
    }

    /// Reads one whole response. The next one on this connection can be read after it.
    pub(crate) fn answer(&mut self) -> io::Result<Response> {
        let head = self.try_head()?;
        self.head = None;
        let mut response = Response {
            status: head.status,
            headers: head.headers,
            body: Vec::new(),
            trailers: Vec::new(),
        };
        match response.framing() {
            Framing::Length(length) => {
                response.body.resize(length, 0);
                heard(self.from.read_exact(&mut response.body))?;
            }
            Framing::Chunked => {
                while let Some(chunk) = self.try_chunk()? {
                    response.body.extend(chunk);
                }
                response.trailers = self.fields()?;
            }
            Framing::UntilClose => _ = heard(self.from.read_to_end(&mut response.body))?,
        }
        Ok(response)
    }
}

// === impl Response ===

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        value(&self.headers, name)
    }

    pub(crate) fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The code of an error response, in the form of OpenAI or of Ollama.
    pub(crate) fn code(&self) -> String {
        let body = self.json();
        let error = &body["error"];
        if error.is_string() {
            return body["code"].as_str().unwrap_or_default().to_owned();
        }
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()), "{body}");
        assert!(error["type"].is_string(), "{body}");
        error["code"].as_str().unwrap_or_default().to_owned()
    }

    /// The seconds of `Retry-After`, which every refusal has.
    pub(crate) fn retry_after(&self) -> u64 {
        let value =
            self.header("retry-after").unwrap_or_else(|| panic!("no retry-after: {self:?}"));
        value.parse().unwrap()
    }

    /// Asserts the status, the code and `Retry-After` of a refusal.
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text());
        assert!(self.retry_after() >= 1);
    }

    fn framing(&self) -> Framing {
        if self.status == 204 || self.status == 304 {
            return Framing::Length(0);
        }
        if let Some(length) = self.header("content-length") {
            return Framing::Length(length.parse().unwrap());
        }
        match self.header("transfer-encoding") {
            Some(_) => Framing::Chunked,
            None => Framing::UntilClose,
        }
    }
}
