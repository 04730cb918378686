package diagnose_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/diagnose"
)

// now is a minute after the times in the pods.
var now = time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC)

func TestTheCauseIsWhatKubernetesReports(t *testing.T) {
	const running = "state: {running: {startedAt: '2026-01-01T00:00:30Z'}}"
	for _, c := range []struct {
		pod     string
		report  *contract.Readiness
		reason  diagnose.Reason
		says    string
		lasting bool
	}{
		{
			"status: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', reason: Unschedulable, " +
				"message: '0/6 nodes are available: 6 Insufficient memory.'}]}",
			nil, diagnose.ReasonUnschedulable, "6 Insufficient memory", true},
		{
			"{spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data-x-0}}]}, status: {conditions: " +
				"[{type: PodScheduled, status: 'False', message: \"0/6 nodes are available: 1 node(s) didn't match " +
				"PersistentVolume's node affinity, 5 node(s) didn't match Pod's node affinity/selector.\"}]}}",
			nil, diagnose.ReasonVolumeZone, "its volume data-x-0", true},
		{
			"{status: {conditions: [{type: PodScheduled, status: 'False', message: '1 node(s) had volume node " +
				"affinity conflict'}]}}",
			nil, diagnose.ReasonVolumeZone, "conflict", true},
		{
			"{spec: {volumes: [{name: data, persistentVolumeClaim: {claimName: data-x-0}}]}, status: {conditions: " +
				"[{type: PodScheduled, status: 'False', message: " +
				"'0/6 nodes are available: 1 node(s) were unschedulable, 5 node(s) had volume node affinity " +
				"conflict.'}]}}",
			nil, diagnose.ReasonUnschedulable,
			"a node is cordoned, and others cannot reach its volume data-x-0; kubectl uncordon that node: 0/6", true},
		{
			"status: {containerStatuses: [{name: c, image: i, state: {waiting: {reason: ErrImageNeverPull, message: " +
				"not present}}}]}", nil,
			diagnose.ReasonImage, "container c: ErrImageNeverPull of image i: not present", true},
		{
			"status: {containerStatuses: [{name: c, restartCount: 3, state: {waiting: {reason: CrashLoopBackOff}}, " +
				"lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}",
			nil, diagnose.ReasonOOMKilled, "container c used more memory than its limit, restarted 3 times", true},
		{"status: {containerStatuses: [{name: c, restartCount: 1, " + running +
			", lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}",
			nil, diagnose.ReasonOOMKilled, "restarted once", true},
		{
			"status: {containerStatuses: [{name: c, state: {running: {startedAt: '2025-12-31T00:00:00Z'}}, " +
				"lastState: {terminated: {exitCode: 137, reason: OOMKilled}}}]}",
			&contract.Readiness{Reason: "joining: the first coordinator has not answered"}, diagnose.ReasonNotReady,
			"joining", false},
		{
			"status: {containerStatuses: [{name: c, restartCount: 5, state: {waiting: {reason: CrashLoopBackOff, " +
				"message: back-off 10s}}, lastState: {terminated: {exitCode: 1, message: \"first\\nthe log is " +
				"damaged\\n\"}}}]}",
			nil, diagnose.ReasonCrashing, "container c ended with exit code 1 (the log is damaged), restarted 5 times",
			true},
		{
			"status: {initContainerStatuses: [{name: i, restartCount: 2, state: {waiting: {reason: " +
				"CrashLoopBackOff}}, lastState: {terminated: {signal: 11, exitCode: 0}}}]}",
			nil, diagnose.ReasonCrashing, "container i was ended by signal 11", true},
		{
			"status: {containerStatuses: [{name: c, state: {waiting: {reason: CreateContainerConfigError, message: " +
				"secret not found}}}]}", nil,
			diagnose.ReasonContainer, "secret not found", true},
		{"status: {phase: Failed, reason: Evicted, message: disk pressure}", nil, diagnose.ReasonFailed,
			"Evicted disk pressure", false},
		{"{metadata: {deletionTimestamp: '2026-01-01T00:00:59Z'}, spec: {nodeName: n1}}", nil,
			diagnose.ReasonTerminating, "", false},
		{"{metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}, spec: {nodeName: n1}}", nil, diagnose.ReasonNodeGone,
			"node n1", true},
		{
			"{spec: {nodeName: n1}, status: {phase: Pending, containerStatuses: [{name: c, state: {waiting: {reason: " +
				"ContainerCreating}}}]}}", nil,
			diagnose.ReasonStarting, "node n1", false},
		{"status: {phase: Running, containerStatuses: [{name: c, " + running + "}]}", nil, diagnose.ReasonNotReady,
			"", false},
		{"status: {phase: Running}", &contract.Readiness{ConfigProblem: "bad epoch"}, diagnose.ReasonNotReady,
			"bad epoch", false},
	} {
		p := &corev1.Pod{}
		if err := yaml.UnmarshalStrict([]byte(c.pod), p); err != nil {
			t.Fatalf("%s: %v", c.pod, err)
		}
		got := diagnose.Of(p, c.report, now)
		if got.Reason != c.reason || !strings.Contains(got.Message, c.says) || got.Lasting != c.lasting {
			t.Errorf("%s:\n%+v, want %s with %q, lasting %t", c.pod, got, c.reason, c.says, c.lasting)
		}
	}
}
