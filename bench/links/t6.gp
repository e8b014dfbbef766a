# gnuplot -c t6.gp FOLDER OUT.svg: completion time against bucket size, one curve a link, the size that auto chose marked.
folder = ARG1
set terminal svg size 800,600 dynamic background rgb "white" font "sans-serif,13"
set output ARG2
set title "One update at level pairs, by bucket size: publish until held" noenhanced
set logscale xy
set xlabel "bucket, KiB"
set ylabel "ms"
set xtics (64, 128, 256, 512, 1024, 2048, 4096, 8192)
set ytics (10, 20, 50, 100, 200, 500, 1000)
set grid xtics ytics lc rgb "#dddddd"
set key below noenhanced
set xrange [48:12000]
links = "near100 near1000 far100 far1000"
names = "'100 Mbit/s, 0.1 ms' '1 Gbit/s, 0.1 ms' '100 Mbit/s, 10 ms' '1 Gbit/s, 10 ms'"
colours = "#1b6ca8 #d1495b #66a182 #8d5a97"
plot for [i=1:4] sprintf("%s/t6-%s.dat", folder, word(links, i)) with linespoints lw 2 pt 7 ps 0.5 \
         lc rgb word(colours, i) title word(names, i), \
     for [i=1:4] sprintf("%s/t6-%s-auto.dat", folder, word(links, i)) with points pt 3 ps 2 lw 2 \
         lc rgb word(colours, i) title "auto, " . word(names, i)
