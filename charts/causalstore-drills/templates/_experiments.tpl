{{- /* A selector of pods of the store: by labels, and by expressions over them. */ -}}
{{- define "drills.selector" -}}
{{- $labels := merge (dict "app.kubernetes.io/name" "causalstore" "app.kubernetes.io/instance" .root.Values.store) (.labels | default dict) -}}
{{- $selector := dict "namespaces" (list .root.Release.Namespace) "labelSelectors" $labels -}}
{{- with .expressions }}{{ $_ := set $selector "expressionSelectors" . }}{{ end -}}
{{- with .nodes }}{{ $_ := set $selector "nodes" . }}{{ end -}}
{{- toYaml $selector -}}
{{- end -}}

{{- /* The labels of the pods of a data center, with more. */ -}}
{{- define "drills.of" -}}
{{- toYaml (merge (dict "causalstore.io/data-center" .dataCenter) (.labels | default dict)) -}}
{{- end -}}

{{- define "drills.required" -}}
{{- range .names -}}
{{- if not (index $.root.Values .) }}{{ fail (printf "drill %s needs the value %s: --set %s=..." $.root.Values.drill . .) }}{{ end -}}
{{- end -}}
{{- end -}}

{{- /* An experiment: kind, what (a part of its name), number, spec. */ -}}
{{- define "drills.experiment" -}}
apiVersion: chaos-mesh.org/v1alpha1
kind: {{ .kind }}
metadata:
  name: {{ printf "%s-drill-%s-%d" .root.Values.store .root.Values.drill (.number | default 0) }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app.kubernetes.io/name: causalstore-drill, app.kubernetes.io/instance: {{ .root.Values.store }}, causalstore.io/drill: {{ .root.Values.drill }}}
spec:
  duration: {{ .root.Values.durationSeconds }}s
{{ toYaml .spec | indent 2 }}
{{- end -}}
