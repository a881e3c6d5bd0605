//! The screen: a head, bars with budget lines and throttle history, tasks with deadlines, locks.

use super::super::tables::{headline, shown};
use super::seen::{self, Bar, SeenTask};
use super::state::{Order, State, View};
use crate::commands::promises::answered;
use crate::table;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph};

const EIGHTHS: [&str; 9] = [" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"];
const HEIGHTS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Most columns of the throttle history.
const HISTORY: usize = 32;
/// A deadline's place in a task's bar.
const DEADLINE_AT: f64 = 0.9;
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

const HELP: &str = "\
q, Esc    leave (the run goes on)
p, space  hold the picture, or go on
+  -      look half as often, or twice as often
Tab       tables, the plan's promises, or bars
s         tasks by urgency, or in the plan's order
j k, arrows, PgUp PgDn, g G   scroll
?         this help

A CPU's bar is its accesses in a period; | is its budget.
The small columns are throttled time, one a look.
A task's bar is its latest response; : is the longest, b
the plan's bound, | the deadline.";

/// Draws all of it.
pub fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [top, middle, keys] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(heading(state), top);
    match state.view {
        View::Overview => overview(frame, middle, state),
        View::Tables => {
            let text = shown(&state.before, &state.now);
            lines_of(frame, middle, state, &text);
        }
        View::Promises => {
            let text = answered(&state.now.promises);
            lines_of(frame, middle, state, text.trim_start());
        }
    }
    // First what a narrow terminal needs most.
    let text = " q leave  ? help  Tab tables  p hold  + - interval  s order";
    frame.render_widget(Line::styled(text, DIM), keys);
    if state.help {
        help(frame);
    }
}

fn heading(state: &State) -> Line<'static> {
    let mut spans = vec![
        Span::styled(" solocore top ", BOLD),
        Span::raw(format!(" {}, every {} ms", headline(&state.now), state.every.as_millis())),
    ];
    if state.paused {
        spans.push(Span::styled("  held", BOLD.fg(Color::Yellow)));
    }
    Line::from(spans)
}

fn overview(frame: &mut Frame<'_>, area: Rect, state: &mut State) {
    let (bars, tasks) = (state.bars(), state.tasks());
    let holders = seen::holders(&state.now);
    let promises = seen::promises(&state.now);
    let lines = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).saturating_add(2);
    let below = if holders.is_empty() { 0 } else { lines(holders.len().min(4)) };
    let [above, rest, locks, promised] = Layout::vertical([
        Constraint::Max(lines(bars.len())),
        Constraint::Min(if tasks.is_empty() { 0 } else { 4 }),
        Constraint::Length(below),
        Constraint::Length(u16::from(promises.is_some())),
    ])
    .areas(area);
    let of = match (&state.now.regulation, &state.now.vcpus) {
        (Some(_), _) => " accesses in a period, | budget ",
        (None, Some(_)) => " time, | C/T ",
        _ => " time of tasks ",
    };
    let widest =
        |of: fn(&Bar) -> &str| bars.iter().map(|b| table::width(&plain(of(b)))).max().unwrap_or(0);
    let widths = (widest(|b| &b.name), widest(|b| &b.figures));
    let rows = bars.iter().map(|b| bar_line(b, widths, above.width, state)).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(rows).block(Block::bordered().title(of)), above);
    task_panel(frame, rest, &tasks, state);
    let line = |(text, holds): &(String, bool)| {
        Line::styled(text.clone(), if *holds { BOLD.fg(Color::Yellow) } else { DIM })
    };
    let rows = holders.iter().map(line).collect::<Vec<_>>();
    frame.render_widget(Paragraph::new(rows).block(Block::bordered().title(" clients ")), locks);
    if let Some((text, kept)) = promises {
        let style = if kept { DIM } else { BOLD.fg(Color::Red) };
        frame.render_widget(Line::styled(format!(" {text}"), style), promised);
    }
}

/// A bar of cells: filled up to `used`, with marks at their places. All shares are 0 to 1.
fn cells(
    width: usize,
    used: f64,
    fill: Style,
    marks: &[(f64, &'static str, Style)],
) -> Vec<Span<'static>> {
    let eighths = (used.clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
    let at =
        |share: f64| ((share.clamp(0.0, 1.0) * width as f64) as usize).min(width.saturating_sub(1));
    (0..width)
        .map(|x| match marks.iter().find(|(share, ..)| at(*share) == x) {
            Some((_, mark, style)) => Span::styled(*mark, *style),
            None => Span::styled(EIGHTHS[eighths.saturating_sub(8 * x).min(8)], fill),
        })
        .collect()
}

/// A part of the width for a bar: what names and figures leave, within limits.
fn bar_width(width: u16, beside: usize) -> usize {
    (width as usize).saturating_sub(beside).clamp(10, 60)
}

/// All lines get the widths of the widest name and figures, so that bars stand below each other.
fn bar_line(
    bar: &Bar,
    (names, figures): (usize, usize),
    width: u16,
    state: &State,
) -> Line<'static> {
    let history: Vec<f64> =
        state.history.get(&bar.name).map_or_else(Vec::new, |h| h.iter().copied().collect());
    let columns = if bar.throttled.is_some() { HISTORY.min(width as usize / 6) } else { 0 };
    let colour = match (bar.alarm, bar.throttled.unwrap_or(0.0) > 0.0) {
        (true, _) => Color::Red,
        (false, true) => Color::Yellow,
        (false, false) => Color::Green,
    };
    let marks: Vec<_> = bar.line.map(|at| (at, "│", BOLD)).into_iter().collect();
    let beside = names + columns + figures + 8;
    let mut spans =
        vec![Span::raw(table::padded(&plain(&bar.name), names + 1)), Span::styled("[", DIM)];
    spans.extend(cells(bar_width(width, beside), bar.used, Style::new().fg(colour), &marks));
    spans.push(Span::styled("]", DIM));
    let latest = &history[history.len().saturating_sub(columns)..];
    spans.push(Span::raw(" ".repeat(columns - latest.len())));
    spans.extend(latest.iter().map(|&share| {
        let height = (share * 8.0).ceil() as usize;
        match height {
            0 => Span::styled("·", DIM),
            h => Span::styled(HEIGHTS[h.min(8) - 1], Style::new().fg(Color::Yellow)),
        }
    }));
    spans.push(Span::raw(format!(" {}", bar.figures)));
    Line::from(spans)
}

/// A name may hold anything; a line holds one.
fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn task_panel(frame: &mut Frame<'_>, area: Rect, tasks: &[SeenTask], state: &mut State) {
    let rows = (area.height as usize).saturating_sub(3);
    state.scroll = state.scroll.min(tasks.len().saturating_sub(rows));
    let order = if state.order == Order::Urgency { "by urgency" } else { "in the plan's order" };
    let more = tasks.len().saturating_sub(state.scroll + rows);
    let more = if more > 0 { format!(", {more} more below") } else { String::new() };
    let title = format!(" tasks {order}{more} ");
    let head =
        ["task", "core", "jobs", "latest ms", "longest ms", "bound ms", "deadline ms", "missed"];
    let mut cells_of = vec![head.map(str::to_owned).to_vec()];
    cells_of.extend(tasks.iter().map(|t| {
        let done = t.longest_ns.is_some() || t.how != "not run";
        vec![
            plain(&t.name),
            t.place.clone(),
            if done { t.jobs.to_string() } else { t.how.clone() },
            table::ms(t.last_ns),
            table::ms(t.longest_ns),
            table::ms(t.bound_ns),
            table::ms(t.deadline_ns),
            t.missed.to_string(),
        ]
    }));
    let text = table::render(&fitted(cells_of, (area.width as usize).saturating_sub(2)));
    let lines: Vec<&str> = text.lines().collect();
    let widest = width_of(&text);
    let width =
        bar_width(area.width, widest + 6).min((area.width as usize).saturating_sub(widest + 5));
    let mut out = vec![Line::styled(lines.first().copied().unwrap_or("").to_owned(), DIM)];
    for (task, line) in tasks.iter().zip(lines.iter().skip(1)).skip(state.scroll).take(rows) {
        out.push(task_line(task, line, widest, width));
    }
    frame.render_widget(Paragraph::new(out).block(Block::bordered().title(title)), area);
}

fn width_of(text: &str) -> usize {
    text.lines().map(table::width).max().unwrap_or(0)
}

/// The rows of a table that is at most `room` columns wide, as far as this can be: long names are
/// cut, then columns are left out, the least telling first.
fn fitted(mut rows: Vec<Vec<String>>, room: usize) -> Vec<Vec<String>> {
    /// Columns of the shortest name that is cut, while all figures are there and without some.
    const NAMES: [usize; 2] = [12, 6];
    const LEFT_OUT: [&str; 4] = ["core", "jobs", "bound ms", "longest ms"];
    let over = |rows: &[Vec<String>]| width_of(&table::render(rows)).saturating_sub(room);
    let by = over(&rows);
    cut_names(&mut rows, by, NAMES[0]);
    for left_out in LEFT_OUT {
        let at = rows.first().and_then(|head| head.iter().position(|name| name == left_out));
        if let Some(at) = at
            && over(&rows) > 0
        {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    let by = over(&rows);
    cut_names(&mut rows, by, NAMES[1]);
    rows
}

/// Cuts names, so that their column becomes narrower by `over`, but keeps `least` of each.
fn cut_names(rows: &mut [Vec<String>], over: usize, least: usize) {
    let names = || rows.iter().filter_map(|row| row.first());
    let longest = names().map(|name| table::width(name)).max().unwrap_or(0);
    let most = longest.saturating_sub(over).max(least);
    for name in rows.iter_mut().filter_map(|row| row.first_mut()) {
        *name = table::cut(name, most);
    }
}

fn task_line(task: &SeenTask, line: &str, widest: usize, width: usize) -> Line<'static> {
    let worst = task.longest_ns.unwrap_or(0);
    let beyond = |limit: Option<u64>| limit.is_some_and(|limit| worst > limit);
    let colour = match task.deadline_ns {
        _ if task.missed > 0 || beyond(task.deadline_ns) => Color::Red,
        _ if beyond(task.bound_ns) => Color::Magenta,
        Some(deadline) if worst as f64 > 0.8 * deadline as f64 => Color::Yellow,
        _ => Color::Green,
    };
    let style = if colour == Color::Green { Style::new() } else { Style::new().fg(colour) };
    let mut spans = vec![Span::styled(table::padded(line, widest + 1), style)];
    let Some(deadline) = task.deadline_ns.filter(|_| width >= 10) else { return Line::from(spans) };
    let share = |ns: u64| DEADLINE_AT * ns as f64 / deadline.max(1) as f64;
    let mut marks = vec![(DEADLINE_AT, "│", BOLD)];
    marks.extend(task.bound_ns.filter(|b| *b < deadline).map(|b| (share(b), "b", DIM)));
    marks.extend(task.longest_ns.map(|l| (share(l), ":", BOLD.fg(colour))));
    let latest = task.last_ns.or(task.longest_ns).unwrap_or(0);
    spans.push(Span::styled("[", DIM));
    spans.extend(cells(width, share(latest), Style::new().fg(colour), &marks));
    spans.push(Span::styled("]", DIM));
    Line::from(spans)
}

/// The tables that a pipe gets, to be scrolled.
fn lines_of(frame: &mut Frame<'_>, area: Rect, state: &mut State, text: &str) {
    let (width, rows) =
        ((area.width as usize).saturating_sub(2).max(1), (area.height as usize).saturating_sub(2));
    let all: Vec<String> = text.lines().flat_map(|line| folded(&plain(line), width)).collect();
    state.scroll = state.scroll.min(all.len().saturating_sub(rows));
    let last = (state.scroll + rows).min(all.len());
    let title = format!(" lines {} to {last} of {} ", (state.scroll + 1).min(all.len()), all.len());
    let lines: Vec<Line<'_>> =
        all[state.scroll..last].iter().map(|l| Line::raw(l.as_str())).collect();
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// A line in pieces that fit; continued lines are indented.
pub(super) fn folded(line: &str, width: usize) -> Vec<String> {
    let all: Vec<char> = line.chars().collect();
    let Some(indent) = width.checked_sub(8).map(|_| "    ") else { return vec![line.to_owned()] };
    let mut out: Vec<String> = Vec::new();
    let mut rest = &all[..];
    loop {
        let room = width - if out.is_empty() { 0 } else { indent.len() };
        let cut = if rest.len() <= room {
            rest.len()
        } else {
            // At the last space, if there is one in the second half.
            rest[..=room]
                .iter()
                .rposition(|c| *c == ' ')
                .filter(|at| *at > room / 2)
                .unwrap_or(room)
        };
        let piece: String = rest[..cut].iter().collect();
        out.push(if out.is_empty() { piece } else { format!("{indent}{}", piece.trim_start()) });
        rest = &rest[cut..];
        if rest.is_empty() {
            return out;
        }
    }
}

fn help(frame: &mut Frame<'_>) {
    let height = u16::try_from(HELP.lines().count()).unwrap_or(0) + 2;
    let width = u16::try_from(HELP.lines().map(str::len).max().unwrap_or(0)).unwrap_or(0) + 4;
    let area = frame.area();
    let [_, middle, _] =
        Layout::vertical([Constraint::Fill(1), Constraint::Max(height), Constraint::Fill(1)])
            .areas(area);
    let [_, middle, _] =
        Layout::horizontal([Constraint::Fill(1), Constraint::Max(width), Constraint::Fill(1)])
            .areas(middle);
    frame.render_widget(Clear, middle);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title(" keys ")), middle);
}
