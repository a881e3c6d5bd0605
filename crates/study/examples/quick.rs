use solocore_study::*;
use std::time::Instant;
fn main() {
    let p = std::env::args().nth(2).map_or_else(Parameters::standard, |f| Parameters::load(f.as_ref()).unwrap());
    let step: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(7);
    let n: u64 = 100;
    let mut sua = [0.0; 10];
    let (mut large, mut high) = ([0.0; 10], [0.0; 10]);
    let mut undecided = 0;
    let (mut tg, mut ta, mut count) = (0.0, 0.0, 0u64);
    let mut s = System::new();
    let mut a = Allocator::new(&p);
    let mut ends = 0.0; let mut k = 0.0;
    for sc in Scenario::all().step_by(step) {
        for milli in (200..=8000).step_by(400) {
            let mut c = [0u64; 10];
            for i in 0..n {
                let t = Instant::now();
                s.generate(&p, 1, sc, milli, i);
                let t2 = Instant::now();
                tg += (t2 - t).as_secs_f64();
                a.load(&s);
                for (at, scheme) in Scheme::all().enumerate() {
                    match a.allocate(&s, scheme, Objective::Feasible) {
                        Answer::Allocation(_) => c[at] += 1,
                        Answer::Undecided => undecided += 1,
                        Answer::None => {}
                    }
                }
                ta += t2.elapsed().as_secs_f64();
                count += 1;
                if i == 20 && c.iter().all(|&c| c == 0) { break; }
            }
            for at in 0..10 {
                let x = c[at] as f64 / n as f64 * 0.4;
                sua[at] += x;
                if sc.large_messages() { large[at] += x }
                if sc.high_bandwidth() { high[at] += x }
            }
            if c.iter().all(|&c| c == 0) { ends += f64::from(milli)/1000.0; k += 1.0; break; }
        }
    }
    for (at, scheme) in Scheme::all().enumerate() { println!("{scheme:14} {:9.2} mean/scenario {:.2}", sua[at], sua[at] / (648 / step) as f64); }
    for (name, milli) in [("C-Light,Short,Med,Slow,Lar,High,Many", 2600), ("C-Light,Long,Light,Quick,Sm,High,Many", 4000)] {
        let sc = Scenario::parse(name).unwrap()[0];
        let c = (0..200).filter(|&i| { s.generate(&p, 1, sc, milli, i); a.load(&s); matches!(a.allocate(&s, Scheme::parse("O|C").unwrap(), Objective::Feasible), Answer::Allocation(_)) }).count();
        println!("{name} {milli}: {c}/200");
    }
    let r = |v: &[f64; 10], x: usize, y: usize| (v[x] / v[y] - 1.0) * 100.0;
    println!("C|C/R|R {:.1} (5)  O|C/C|C {:.1} (11) large {:.1} (13)  All/C|C {:.1} (3) high {:.1} (4)  All/LP {:.1} SP {:.1} (3,3) O: {:.1} {:.1} (3,2)  OAll/CC {:.1} (14) OAll/RR {:.1} (20)  opt {:.2}",
        r(&sua,1,0), r(&sua,2,1), r(&large,2,1), r(&sua,3,1), r(&high,3,1), r(&sua,3,4), r(&sua,3,5), r(&sua,6,7), r(&sua,6,8), r(&sua,6,1), r(&sua,6,0), r(&sua,9,6));
    println!("undecided {undecided}, systems {count}, generate {:.2} us, allocate10 {:.2} us, end {:.2}", tg / count as f64 * 1e6, ta / count as f64 * 1e6, ends / k);
}
