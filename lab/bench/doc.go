// Package bench measures CausalStore: what its data plane costs over the stock storage (overhead, workloads,
// redis-benchmark), how it stands in the evaluation of Karma's paper (paper), what it keeps in memory, by itself and
// under attack (memory, limits), what it costs while nobody uses it (idle), what writes cost of a key that is kept near
// (near-copies), what clients see while a part fails (faults), and what two regions cost and take with a long path
// between them (regions).
//
// Each of these is an Experiment: help, flags, how to measure, and a result, which is printed as a Report. Experiments
// lists them all; the command line is made from it. What they share:
//
//   - driver: the load generator. A burst is load without pauses, a closedLoop has sessions that think.
//   - processes: a running system of one or many processes, or a stock Redis, with what it uses.
//   - contest: systems that take turns under the same load; a Side is what was measured of one of them.
//   - Report: tables and charts, as text and as a page.
//
// Every comparison is made in one run, with rounds of the compared systems in turn, since the machine that it runs on
// changes from minute to minute. Deployments run in processes of their own, so that what the load generator uses is not
// taken for theirs (but for faults, which measures no CPU time). Results are what was measured, with the goals beside
// them; nothing fails because a goal is missed.
package bench
