// A push server: tokio and tokio-tungstenite, WebSockets whose messages are ignored. It prints its URL.
//
//     push [BYTES]    with read buffers of so many bytes in place of 128 KiB
use futures_util::StreamExt;
use std::io;
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

async fn subscribe(socket: TcpStream, config: WebSocketConfig) {
    if let Ok(mut socket) = tokio_tungstenite::accept_async_with_config(socket, Some(config)).await {
        while let Some(Ok(_)) = socket.next().await {}
    }
}

async fn serve(config: WebSocketConfig) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("serving http://{}", listener.local_addr()?);
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(subscribe(socket, config));
    }
}

fn main() -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let mut config = WebSocketConfig::default();
    if let Some(bytes) = std::env::args().nth(1) {
        config = config.read_buffer_size(bytes.parse().expect("a number of bytes"));
    }
    runtime.block_on(serve(config))
}
