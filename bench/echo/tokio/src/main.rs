// An echo server over TLS: tokio and rustls. echo CERTIFICATE KEY, PEM files; it prints its port.
use std::{env, io, sync::Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::rustls::pki_types::{pem::PemObject, CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

async fn echo(socket: TcpStream, acceptor: TlsAcceptor) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut stream = acceptor.accept(socket).await?;
    let mut bytes = [0; 1024];
    loop {
        let n = stream.read(&mut bytes).await?;
        if n == 0 {
            return Ok(());
        }
        stream.write_all(&bytes[..n]).await?;
        stream.flush().await?;
    }
}

async fn serve(acceptor: TlsAcceptor) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("echoing on port {}", listener.local_addr()?.port());
    loop {
        let (socket, _) = listener.accept().await?;
        tokio::spawn(echo(socket, acceptor.clone()));
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files: Vec<String> = env::args().skip(1).collect();
    let certificate = CertificateDer::from_pem_file(&files[0])?;
    let key = PrivateKeyDer::from_pem_file(&files[1])?;
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    Ok(runtime.block_on(serve(TlsAcceptor::from(Arc::new(config))))?)
}
