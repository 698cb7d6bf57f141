//! Where the command speaks: on a terminal above a block that is redrawn, elsewhere in lines.

use std::{
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use console::{Term, measure_text_width};
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval},
};

use super::view::Sight;

/// How often the block is looked at.
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// How often there may be a line.
const LINE_EVERY: Duration = Duration::from_secs(1);

/// What is seen now.
pub type Look = Arc<dyn Fn() -> Sight + Send + Sync>;

/// Shows what is seen until it is dropped.
pub struct Screen {
    shown: Arc<Shown>,
    drawing: JoinHandle<()>,
}

/// What is on the terminal, or was said last.
struct Shown {
    look: Look,
    /// Where it is a terminal.
    block: Option<Mutex<Block>>,
    last: Mutex<Sight>,
}

/// Rows of a terminal, the last that there are.
struct Block {
    terminal: Term,
    rows: Vec<String>,
}

impl Screen {
    /// Begins to show what is seen.
    pub fn start(look: Look) -> Self {
        let terminal = Term::buffered_stdout();
        // A terminal that cannot move its cursor is none.
        let block = (terminal.is_term() && !console::is_dumb()).then(|| {
            Mutex::new(Block {
                terminal,
                rows: Vec::new(),
            })
        });
        let every = if block.is_some() { DRAW_EVERY } else { LINE_EVERY };
        let shown = Arc::new(Shown {
            look,
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

    /// Says what was asked for. Who no longer listens need not be told.
    pub fn say(&self, text: &str) {
        self.shown.around(|| {
            let _ = writeln!(io::stdout(), "{text}");
        });
    }

    /// Says how it goes.
    pub fn status(&self, text: &str) {
        self.shown.around(|| {
            let _ = writeln!(io::stderr(), "{text}");
        });
    }

    /// Says what is wrong.
    pub fn error(&self, text: &str) {
        self.status(&format!("error: {text}"));
    }

    /// Shows no more. What is seen at the end stays: the block, or a line of its own kind.
    pub fn sum_up(self) {
        self.drawing.abort();
        if self.shown.block.is_none() {
            let sight = (self.shown.look)();
            let _ = writeln!(io::stdout(), "summary {}", sight.line());
            *locked(&self.shown.last) = sight.without_lag();
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
        let sight = (self.look)();
        let line = sight.line();
        let seen = sight.clone().without_lag();
        let mut last = locked(&self.last);
        if let Some(block) = &self.block {
            locked(block).show(&sight);
        } else if *last != seen {
            let _ = writeln!(io::stdout(), "status {line}");
        }
        *last = seen;
    }

    /// Keeps the block out of the way of what is said.
    fn around(&self, say: impl FnOnce()) {
        let Some(block) = &self.block else {
            return say();
        };
        let mut block = locked(block);
        let rows = block.clear();
        let _ = block.terminal.flush();
        say();
        block.draw(rows);
    }
}

impl Block {
    fn show(&mut self, sight: &Sight) {
        let (height, width) = self.terminal.size();
        // An empty row keeps it apart from what was said.
        let mut rows = vec![String::new()];
        rows.extend(sight.block(usize::from(width), console::colors_enabled()));
        rows.truncate(usize::from(height).saturating_sub(1));
        if rows != self.rows {
            self.clear();
            self.draw(rows);
        }
    }

    /// Writes the rows at once, so that nobody sees half of them.
    fn draw(&mut self, rows: Vec<String>) {
        for row in &rows {
            let _ = self.terminal.write_line(row);
        }
        let _ = self.terminal.flush();
        self.rows = rows;
    }

    /// Takes the rows away. A terminal that became narrower has broken them.
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
