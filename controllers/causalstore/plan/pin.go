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
	// annotationInputs is a digest of the part of the spec that the pods were built from.
	annotationInputs = "causalstore.io/inputs"
	// AnnotationTemplate keeps the pod template as it was built, so that another version of the operator can apply the
	// same one.
	AnnotationTemplate = "causalstore.io/template"
	// annotationRestartEpoch is Record.RestartEpoch, which is part of the inputs: the record can be lost.
	annotationRestartEpoch = "causalstore.io/restart-epoch"
)

// digest returns a short digest of anything that can be encoded.
func digest(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: inputs are strings and numbers
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// pinTemplate keeps the pod template while the inputs are the same, so that a new version of the operator restarts
// nothing. It keeps the template that was built, not the present one, which somebody else may have changed.
func (b *builder) pinTemplate(s *appsv1.StatefulSet) error {
	if was := findStatefulSet(b.in.StatefulSets, s.Name); was != nil &&
		was.Annotations[annotationInputs] == s.Annotations[annotationInputs] {
		if text := was.Annotations[AnnotationTemplate]; text != "" {
			var t corev1.PodTemplateSpec
			if err := json.Unmarshal([]byte(text), &t); err != nil {
				return fmt.Errorf("StatefulSet %s: read annotation %s: %w; remove it", s.Name, AnnotationTemplate, err)
			}
			s.Spec.Template, s.Annotations[AnnotationTemplate] = t, text
			return nil
		}
	}
	text, err := json.Marshal(s.Spec.Template)
	if err != nil {
		return fmt.Errorf("StatefulSet %s: %w", s.Name, err)
	}
	s.Annotations[AnnotationTemplate] = string(text)
	return nil
}
