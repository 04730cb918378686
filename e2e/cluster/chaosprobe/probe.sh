#!/bin/sh
# Prints what Chaos Mesh can do on the node of the chaos-daemon that runs this script, one line for each feature: its name, yes or no, and
# what was tried. It tries in a network namespace of its own and leaves nothing behind.
#
#   kubectl exec -i -n chaos-mesh POD -- sh < probe.sh

report() {
	name=$1
	shift
	if out=$("$@" 2>&1); then
		echo "$name yes"
	else
		echo "$name no" $(echo "$out" | tail -n 1)
	fi
}

in_network() { unshare --net sh -e -c "$1"; }

traffic() { in_network 'ip link add probe0 type veth peer name probe1; '"$1"; }

# set NAME... matches addresses that experiments partition from each other, as the daemon does it.
sets='ipset create probe hash:net; ipset add probe 192.0.2.1/32; iptables -w -N PROBE; '

clocks() {
	case $(uname -m) in
	x86_64 | aarch64) ;;
	*) echo "TimeChaos knows amd64 and arm64, and this is $(uname -m)"; return 1 ;;
	esac
	if ! grep -qF fakeclock/fake_clock_gettime.o "$(command -v chaos-daemon)"; then
		echo "this chaos-daemon was built without the code that replaces clocks"
		return 1
	fi
	if [ "$(cat /proc/sys/kernel/yama/ptrace_scope 2>/dev/null || echo 0)" = 3 ]; then
		echo "kernel.yama.ptrace_scope is 3: nothing may trace a process"
		return 1
	fi
}

files() {
	if ! command -v toda >/dev/null; then
		echo "the image of chaos-daemon has no toda"
		return 1
	fi
	grep -qw fuse /proc/filesystems || { echo "the kernel has no FUSE"; return 1; }
}

program() {
	command -v "$1" >/dev/null || { echo "the image of chaos-daemon has no $1"; return 1; }
}

report partition in_network "$sets"'iptables -w 5 -A PROBE -i eth0 -m set --match-set probe src,dst -j DROP'
report ports in_network "$sets"'iptables -w 5 -A PROBE -i eth0 -m set --match-set probe src,dst -j DROP --protocol tcp -m multiport --source-ports 1,2'
report netem traffic 'tc qdisc add dev probe0 root netem delay 1ms'
report bandwidth traffic 'tc qdisc add dev probe0 root tbf rate 1mbit burst 10kb latency 10ms'
report targets traffic 'tc qdisc add dev probe0 root handle 1: prio; tc qdisc add dev probe0 parent 1:1 sfq'
report clock clocks
report files files
report cpu program stress-ng
report memory program memStress
