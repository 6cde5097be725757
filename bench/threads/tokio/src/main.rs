// Many blocked tasks of tokio, on one thread.
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

static WAITING: AtomicUsize = AtomicUsize::new(0);

// Read a field in kilobytes from /proc/self/status.
fn field(name: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<f64>().ok());
    kilobytes.unwrap_or(0.0) * 1024.0
}

async fn block(never: Arc<Notify>, waiting: &'static AtomicUsize) {
    let room = [0u8; 128];
    let notified = never.notified();
    waiting.fetch_add(1, Relaxed);
    notified.await;
    std::hint::black_box(&room);
}

async fn measure(figure: &str, count: usize) -> f64 {
    let never = Arc::new(Notify::new());
    let mut tasks = Vec::with_capacity(count);
    let (memory, tables) = (field("VmRSS:"), field("VmPTE:"));
    let began = Instant::now();
    for _ in 0..count {
        tasks.push(tokio::spawn(block(never.clone(), &WAITING)));
    }
    while WAITING.load(Relaxed) < count {
        tokio::task::yield_now().await;
    }
    let created = began.elapsed();
    let used = (field("VmRSS:") - memory, field("VmPTE:") - tables);
    let began = Instant::now();
    never.notify_waiters();
    for task in tasks {
        task.await.expect("a task");
    }
    let each = match figure {
        "memory" => used.0,
        "tables" => used.1,
        "create" => created.as_nanos() as f64,
        _ => began.elapsed().as_nanos() as f64,
    };
    each / count as f64
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.get(2).and_then(|text| text.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let figure = runtime.block_on(measure(&arguments[1], count.expect("a count")));
    println!("{figure:.3}");
}
