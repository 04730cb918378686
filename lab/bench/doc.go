// Package bench measures CausalStore: what its data plane costs over the stock storage (Overhead, OverheadProcesses),
// how it stands in the evaluation of Karma's paper (Paper), what it keeps in memory (Memory), what clients see while a
// part fails (Faults), and what two regions cost and take with a long path between them (Regions).
//
// Every comparison is made in one run, with rounds of the compared systems in turn, since the machine that it runs on
// changes from minute to minute. Deployments run in processes of their own, so that what the load generator uses is not
// taken for theirs (but for Faults, which measures no CPU time). Results are what was measured, with the goals beside
// them; nothing fails because a goal is missed.
package bench
