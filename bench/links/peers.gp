# gnuplot -c peers.gp FOLDER OUT.svg: the trainer's bytes and the time until all hold an update, by number of peers.
folder = ARG1
set terminal svg size 900,420 dynamic background rgb "white" font "sans-serif,13"
set output ARG2
set multiplot layout 1,2 title "One update through a trainer's wire of 100 Mbit/s: direct and relayed by two sites"
set xlabel "peers"
set xrange [0:9]
set xtics (2, 4, 8)
set yrange [0:*]
set key top left
set ylabel "MB sent by the trainer"
plot folder . "/peers-direct.dat" using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb "#d1495b" title "direct", \
     folder . "/peers-relayed.dat" using 1:2 with linespoints lw 2 pt 7 ps 0.6 lc rgb "#1b6ca8" title "relayed"
set ylabel "s until all hold it"
plot folder . "/peers-direct.dat" using 1:3 with linespoints lw 2 pt 7 ps 0.6 lc rgb "#d1495b" title "direct", \
     folder . "/peers-relayed.dat" using 1:3 with linespoints lw 2 pt 7 ps 0.6 lc rgb "#1b6ca8" title "relayed"
unset multiplot
