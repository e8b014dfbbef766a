# gnuplot -c bench/crossover.gp [TABLE [OUT.svg]]: publish to held by density, one panel a link, one curve a level.
# TABLE is what bench_crossover prints, by default its copy in docs/PERFORMANCE.md; OUT.svg is docs/crossover.svg.
table = ARGC > 0 ? ARG1 : "docs/PERFORMANCE.md"
out = ARGC > 1 ? ARG2 : "docs/crossover.svg"
rows = "awk '/^[|] link [|] changed [|] pairs /{on=1; next} !/^[|]/{on=0} on && !/---/' '" . table . "' | tr -d '*'"
links = system(rows . " | cut -d'|' -f2 | uniq | sed \"s/^ */'/; s/ *$/'/\"")
levels = "pairs fast tight full"
colours = "#66a182 #1b6ca8 #d1495b #8d5a97"
set terminal svg size 960,400 dynamic background rgb "white" font "sans-serif,13"
set output out
set datafile separator "|"
set logscale xy
set xlabel "elements changed, %"
set xrange [0.07:14]
set xtics (0.1, 1, 10)
set yrange [2:5000]
set ytics (3, 10, 30, 100, 300, 1000, 3000)
set grid xtics ytics lc rgb "#dddddd"
set multiplot layout 1,words(links) title "Milliseconds from publish until a rollout holds the version, by level"
do for [n=1:words(links)] {
    set title word(links, n) noenhanced
    if (n == 1) { set ylabel "ms" } else { unset ylabel }
    if (n == words(links)) { set key top left } else { unset key }
    plot for [level=1:4] "< " . rows . " | grep -F '| " . word(links, n) . " |'" using 3:level + 3 with linespoints \
         lw 2 pt 7 ps 0.6 lc rgb word(colours, level) title word(levels, level)
}
unset multiplot
