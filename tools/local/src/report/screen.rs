//! Standard output of the command. On a terminal, text appears above a progress block that is redrawn; elsewhere, progress
//! appears as `status` lines.

use std::{
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use console::{Term, measure_text_width};
use terminal::{write_line, write_lines};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::view::Snapshot;

const DRAW_INTERVAL: Duration = Duration::from_millis(200);
/// Minimum interval between two status lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);
pub type TakeSnapshot = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// Shows the progress until it is dropped.
pub struct Screen {
    shown: Arc<Shown>,
    drawing: JoinHandle<()>,
}

struct Shown {
    take: TakeSnapshot,
    /// The block, if the output is a terminal.
    block: Option<Mutex<Block>>,
    last: Mutex<Snapshot>,
}

/// The last rows of a terminal.
struct Block {
    terminal: Term,
    rows: Vec<String>,
}

impl Screen {
    pub fn start(take: TakeSnapshot) -> Self {
        let terminal = Term::buffered_stdout();
        // A dumb terminal cannot move the cursor.
        let block = (terminal.is_term() && !console::is_dumb()).then(|| {
            Mutex::new(Block {
                terminal,
                rows: Vec::new(),
            })
        });
        let every = if block.is_some() { DRAW_INTERVAL } else { LINE_INTERVAL };
        let shown = Arc::new(Shown {
            take,
            block,
            last: Mutex::default(),
        });
        let drawn = shown.clone();
        let drawing = tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                drawn.update();
            }
        });
        Self { shown, drawing }
    }

    /// Prints to standard output. Write errors are ignored.
    pub fn print(&self, text: &str) {
        self.shown.without_block(|| {
            let _ = write_lines(&mut io::stdout(), text);
        });
    }

    /// Prints a line to standard error.
    pub fn status(&self, text: &str) {
        self.shown.without_block(|| {
            let _ = write_line(&mut io::stderr(), text);
        });
    }

    pub fn error(&self, text: &str) {
        self.status(&format!("error: {text}"));
    }

    /// Stops updating. The block stays, or a `summary` line is printed.
    pub fn finish(self) {
        self.drawing.abort();
        if self.shown.block.is_none() {
            let snapshot = (self.shown.take)();
            let _ = write_line(&mut io::stdout(), &format!("summary {}", snapshot.line()));
            *locked(&self.shown.last) = snapshot.without_times();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.drawing.abort();
        self.shown.update();
    }
}

impl Shown {
    fn update(&self) {
        let snapshot = (self.take)();
        let line = snapshot.line();
        let seen = snapshot.clone().without_times();
        let mut last = locked(&self.last);
        if let Some(block) = &self.block {
            locked(block).show(&snapshot);
        } else if *last != seen {
            let _ = write_line(&mut io::stdout(), &format!("status {line}"));
        }
        *last = seen;
    }

    fn without_block(&self, print: impl FnOnce()) {
        let Some(block) = &self.block else {
            return print();
        };
        let mut block = locked(block);
        let rows = block.clear();
        let _ = block.terminal.flush();
        print();
        block.draw(rows);
    }
}

impl Block {
    fn show(&mut self, snapshot: &Snapshot) {
        let (height, width) = self.terminal.size();
        // An empty row separates the block from the text above.
        let mut rows = vec![String::new()];
        rows.extend(snapshot.block(usize::from(width), console::colors_enabled()));
        rows.truncate(usize::from(height).saturating_sub(1));
        if rows != self.rows {
            self.clear();
            self.draw(rows);
        }
    }

    /// Writes all rows in one flush, to avoid flicker.
    fn draw(&mut self, rows: Vec<String>) {
        for row in &rows {
            let _ = self.terminal.write_line(row);
        }
        let _ = self.terminal.flush();
        self.rows = rows;
    }

    /// Removes the rows. They are wrapped if the terminal has become narrower.
    fn clear(&mut self) -> Vec<String> {
        let (_, width) = self.terminal.size();
        let width = usize::from(width).max(1);
        let rows = self.rows.iter();
        let high: usize = rows.map(|row| measure_text_width(row).div_ceil(width).max(1)).sum();
        let _ = self.terminal.clear_last_lines(high);
        std::mem::take(&mut self.rows)
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
