package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

const (
	// annotationInputs is a digest of what of the spec the pods were built from.
	annotationInputs = "causalstore.io/inputs"
	// annotationTemplate keeps the pod template as it was built, so that another version of the operator can apply the same
	// again.
	annotationTemplate = "causalstore.io/template"
)

// digest of anything that has an encoding.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // inputs are made of words and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// pin lets a new version of the operator restart nothing: while the inputs are the same, pods stay as they were built. It is
// the template that was built that is kept, not the one that is there, which somebody else may have changed.
func (b *builder) pin(s *appsv1.StatefulSet) error {
	if was := find(b.in.StatefulSets, s.Name); was != nil && was.Annotations[annotationInputs] == s.Annotations[annotationInputs] {
		if text := was.Annotations[annotationTemplate]; text != "" {
			var t corev1.PodTemplateSpec
			if err := json.Unmarshal([]byte(text), &t); err != nil {
				return fmt.Errorf("StatefulSet %s: read annotation %s: %w; remove it", s.Name, annotationTemplate, err)
			}
			s.Spec.Template, s.Annotations[annotationTemplate] = t, text
			return nil
		}
	}
	text, err := json.Marshal(s.Spec.Template)
	if err != nil {
		return fmt.Errorf("StatefulSet %s: %w", s.Name, err)
	}
	s.Annotations[annotationTemplate] = string(text)
	return nil
}

func find(all []appsv1.StatefulSet, name string) *appsv1.StatefulSet {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}
