// Package diagnose says why a pod does not serve, from what Kubernetes reports about it and from the pod's own
// readiness report. It is pure. The operator puts the causes into the status of a store, and the kubectl plugin shows
// them.
package diagnose

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/causalstore/causalstore/contract"
)

// Reason is a cause in one word. Where Kubernetes has a word it is that one, for example CrashLoopBackOff.
type Reason string

// Reasons that Kubernetes has no single word for.
const (
	// ReasonImage: no image of that name can be had. The message has the word of the kubelet.
	ReasonImage Reason = "ImageUnavailable"
	// ReasonOOMKilled: the container had used all of its memory when it was last terminated.
	ReasonOOMKilled Reason = "OOMKilled"
	// ReasonCrashing: the container ends again and again.
	ReasonCrashing Reason = "CrashLoopBackOff"
	// ReasonContainer: the kubelet cannot create the container.
	ReasonContainer Reason = "ContainerRefused"
	// ReasonUnschedulable: no node takes the pod. The message has the words of the scheduler.
	ReasonUnschedulable Reason = "Unschedulable"
	// ReasonVolumeZone: no node that the pod may run on can reach its volume.
	ReasonVolumeZone Reason = "VolumeInOtherZone"
	// ReasonNotCreated: Kubernetes refuses to make the pod, for example because a quota is exceeded.
	ReasonNotCreated Reason = "FailedCreate"
	// ReasonUnbound: a claim of the pod gets no volume.
	ReasonUnbound Reason = "VolumeNotBound"
	// ReasonNodeGone: the node that the pod was on does not answer, or is gone.
	ReasonNodeGone Reason = "NodeNotAnswering"
	// ReasonTerminating: the pod stops.
	ReasonTerminating Reason = "Terminating"
	// ReasonFailed: the kubelet has ended the pod.
	ReasonFailed Reason = "PodFailed"
	// ReasonStarting: the containers are being created.
	ReasonStarting Reason = "ContainerCreating"
	// ReasonNotReady: the containers run, and the part says that it cannot do its work.
	ReasonNotReady Reason = "NotReady"
)

// Reasons that a part reports itself: its state.
const (
	ReasonDataLost       = Reason(contract.StateDataLost)
	ReasonDuplicate      = Reason(contract.StateDuplicateIdentity)
	ReasonStorageFull    = Reason(contract.StateStorageFull)
	ReasonStorageFailing = Reason(contract.StateStorageFailing)
	ReasonLogFull        = Reason(contract.StateLogFull)
	ReasonWithdrawn      = Reason(contract.StateWithdrawn)
)

// IsReported reports whether only the part itself knows a cause with this reason.
func IsReported(r Reason) bool {
	switch r {
	case ReasonNotReady, ReasonDataLost, ReasonDuplicate, ReasonStorageFull, ReasonStorageFailing, ReasonLogFull,
		ReasonWithdrawn:
		return true
	}
	return false
}

// IsLasting reports whether a cause that a part reports itself remains until somebody changes something.
func IsLasting(r Reason) bool {
	return IsReported(r) && r != ReasonNotReady && r != ReasonStorageFailing
}

// IsEventful reports whether a reason is worth an event: pods that start or stop have none.
func IsEventful(r Reason) bool {
	return r != ReasonStarting && r != ReasonNotReady && r != ReasonTerminating
}

// Cause is why a pod does not serve.
type Cause struct {
	Reason  Reason
	Message string
	// Lasting is whether the cause remains until somebody changes something: the spec, the node or the volume.
	Lasting bool
}

func (c Cause) String() string {
	if c.Message == "" {
		return string(c.Reason)
	}
	return fmt.Sprintf("%s: %s", c.Reason, c.Message)
}

// NotCreated is why a pod does not exist that its StatefulSet should have made. The message is that of the API server.
func NotCreated(message string) Cause { return cause(ReasonNotCreated, true, "%s", message) }

// Unbound is why a pod waits for the volume of a claim.
func Unbound(claim, why string) Cause {
	return cause(ReasonUnbound, true, "claim %s has no volume: %s", claim, why)
}

// maxMessage bounds the text of a cause, in bytes.
const maxMessage = 512

func cause(reason Reason, lasting bool, format string, args ...any) Cause {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + " ..."
	}
	return Cause{reason, text, lasting}
}

// Of returns why a pod that is not ready does not serve. The report is the pod's own, or nil if it is unknown. The
// message is empty if nobody but the pod itself knows.
func Of(p *corev1.Pod, report *contract.Readiness, now time.Time) Cause {
	if p.DeletionTimestamp != nil {
		// The API server sets DeletionTimestamp to the end of the grace period; a kubelet that runs is done by then.
		if late := now.Sub(p.DeletionTimestamp.Time); late > nodeSilence {
			return cause(ReasonNodeGone, true, "it should have stopped %s ago, and node %s has not confirmed it",
				late.Round(time.Second), orNone(p.Spec.NodeName))
		}
		return cause(ReasonTerminating, false, "it stops")
	}
	// A process that answers knows more than Kubernetes does. A storage that does not answer may be a container that
	// ended.
	if report != nil && IsLasting(Reason(report.State)) {
		return cause(Reason(report.State), true, "%s", report.Reason)
	}
	if p.Status.Phase == corev1.PodFailed {
		return cause(ReasonFailed, false, "%s %s", p.Status.Reason, p.Status.Message)
	}
	for _, all := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range all {
			if c, stuck := ofContainer(&all[i], now); stuck {
				return c
			}
		}
	}
	if c, pending := ofScheduling(p); pending {
		return c
	}
	switch {
	case report != nil && report.State == contract.StateStorageFailing:
		return cause(ReasonStorageFailing, false, "%s", report.Reason)
	case report != nil && report.Reason != "":
		return cause(ReasonNotReady, false, "%s", report.Reason)
	case report != nil && report.ConfigProblem != "":
		return cause(ReasonNotReady, false, "its configuration is not accepted: %s", report.ConfigProblem)
	case isCreating(p):
		return cause(ReasonStarting, false, "its containers are being created on node %s", orNone(p.Spec.NodeName))
	}
	return Cause{Reason: ReasonNotReady}
}

// nodeSilence is how much longer than its grace period a pod may take to stop until its node counts as lost.
const nodeSilence = 30 * time.Second

func orNone(node string) string { return cmp.Or(node, "(none)") }

// ofContainer returns why a container does not run, if Kubernetes knows.
func ofContainer(s *corev1.ContainerStatus, now time.Time) (Cause, bool) {
	if r := s.State.Running; r != nil && (s.Ready || now.Sub(r.StartedAt.Time) > settled) {
		return Cause{}, false
	}
	if ended := lastEnd(s); ended != nil && ended.Reason == string(ReasonOOMKilled) {
		return cause(ReasonOOMKilled, true, "container %s used more memory than its limit, %s; raise the limit", s.Name,
			restarts(s)), true
	}
	waiting := s.State.Waiting
	if waiting == nil {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return cause(ReasonCrashing, false, "container %s %s", s.Name, describeEnd(t)), true
		}
		return Cause{}, false
	}
	switch waiting.Reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
		"RegistryUnavailable", "SignatureValidationFailed":
		return cause(ReasonImage, true, "container %s: %s of image %s: %s", s.Name, waiting.Reason, s.Image,
			waiting.Message), true
	case "CrashLoopBackOff":
		if ended := lastEnd(s); ended != nil {
			return cause(ReasonCrashing, true, "container %s %s, %s", s.Name, describeEnd(ended), restarts(s)), true
		}
		return cause(ReasonCrashing, true, "container %s: %s", s.Name, waiting.Message), true
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError",
		"PostStartHookError":
		return cause(ReasonContainer, true, "container %s: %s: %s", s.Name, waiting.Reason, waiting.Message), true
	}
	return Cause{}, false
}

// settled is how long a container has to run until its last end no longer explains why it is not ready.
const settled = 2 * time.Minute

// lastEnd returns how a container ended last, or nil.
func lastEnd(s *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	if s.State.Terminated != nil {
		return s.State.Terminated
	}
	return s.LastTerminationState.Terminated
}

func describeEnd(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("ended with exit code %d", t.ExitCode)
	if t.Signal != 0 {
		text = fmt.Sprintf("was ended by signal %d", t.Signal)
	}
	if lines := strings.Split(strings.TrimSpace(t.Message), "\n"); lines[len(lines)-1] != "" {
		text += fmt.Sprintf(" (%s)", strings.TrimSpace(lines[len(lines)-1]))
	}
	return text
}

func restarts(s *corev1.ContainerStatus) string {
	if s.RestartCount == 1 {
		return "restarted once"
	}
	return fmt.Sprintf("restarted %d times", s.RestartCount)
}

// volumeZone are words of the scheduler when a volume cannot be reached from the nodes that a pod may run on. They
// differ between versions of Kubernetes.
var volumeZone = []string{"volume node affinity conflict", "didn't match PersistentVolume's node affinity",
	"had no available volume zone"}

// ofScheduling returns why no node takes a pod.
func ofScheduling(p *corev1.Pod) (Cause, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type != corev1.PodScheduled || c.Status != corev1.ConditionFalse {
			continue
		}
		for _, words := range volumeZone {
			if !strings.Contains(c.Message, words) {
				continue
			}
			if strings.Contains(c.Message, "unschedulable") {
				// of nodes that are cordoned, the scheduler does not say whether they reach it
				return cause(ReasonUnschedulable, true,
					"a node is cordoned, and others cannot reach its volume %s; kubectl uncordon that node: %s",
					strings.Join(Claims(p), ", "), c.Message), true
			}
			return cause(ReasonVolumeZone, true,
				"its volume %s cannot be reached from the nodes that it may run on: %s", strings.Join(Claims(p), ", "),
				c.Message), true
		}
		return cause(ReasonUnschedulable, true, "%s", cmp.Or(c.Message, c.Reason)), true
	}
	return Cause{}, false
}

// Claims returns the claims that a pod mounts.
func Claims(p *corev1.Pod) (all []string) {
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			all = append(all, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return all
}

// isCreating reports whether a container waits to be created.
func isCreating(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Waiting != nil {
			return true
		}
	}
	return p.Status.Phase == corev1.PodPending
}
