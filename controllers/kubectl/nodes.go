package kubectl

import (
	"cmp"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// nodes are the nodes of a cluster by name. It is empty if the user may not list them.
type nodes map[string]*corev1.Node

// readNodes returns the nodes. allowed is false if the user may not list them.
func (k *connection) readNodes(ctx context.Context) (all nodes, allowed bool, err error) {
	var list corev1.NodeList
	if err := k.List(ctx, &list); apierrors.IsForbidden(err) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, fmt.Errorf("list nodes: %w", err)
	}
	return nodesByName(list.Items), true, nil
}

func nodesByName(list []corev1.Node) nodes {
	all := make(nodes, len(list))
	for i := range list {
		all[list[i].Name] = &list[i]
	}
	return all
}

// problem says that the node of a pod does not answer or is gone. It is empty if all is well, or nodes are not known.
// The API server shows such a pod as ready until the node has been silent for some time.
func (all nodes) problem(p *corev1.Pod) string {
	if p.Spec.NodeName == "" || len(all) == 0 {
		return ""
	}
	n := all[p.Spec.NodeName]
	if n == nil {
		return fmt.Sprintf("its node %s is no longer in the cluster", p.Spec.NodeName)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("its node %s does not answer: %s", n.Name, cmp.Or(c.Message, c.Reason))
		}
	}
	return ""
}
