{{- define "causalstore.name" -}}
{{- if contains "causalstore" .Release.Name -}}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{- else -}}{{ printf "%s-causalstore" .Release.Name | trunc 50 | trimSuffix "-" }}{{- end -}}
{{- end -}}

{{- define "causalstore.selector" -}}
app.kubernetes.io/name: causalstore-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "causalstore.labels" -}}
{{ include "causalstore.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "causalstore.image" -}}
{{ .Values.image.repository }}:{{ include "causalstore.tag" .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* A tag that YAML takes for a number, such as 20260102, as it was written. */ -}}
{{- define "causalstore.tag" -}}
{{- if kindIs "string" . }}{{ . }}{{ else if not (kindIs "invalid" .) }}{{ int64 . }}{{ end -}}
{{- end -}}

{{- /* Cluster-wide objects, so that two releases do not share them. */ -}}
{{- define "causalstore.clusterName" -}}
{{ .Release.Namespace }}-{{ include "causalstore.name" . }}
{{- end -}}

{{- /* The rules of the generated role for resources of the cluster (nodes, and what is read of other namespaces), or for the others. */ -}}
{{- define "causalstore.rules" -}}
{{- $cluster := list "nodes" "namespaces" "persistentvolumes" "leases" "priorityclasses" "storageclasses" -}}
{{- $rules := list -}}
{{- range (.root.Files.Get "files/role.yaml" | fromYaml).rules -}}
{{- if eq $.cluster (has (first .resources) $cluster) }}{{ $rules = append $rules . }}{{ end -}}
{{- end -}}
{{- toYaml $rules -}}
{{- end -}}

{{- define "causalstore.webhookHost" -}}
{{ include "causalstore.name" . }}-webhook.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "causalstore.certManager" -}}
{{- if and .Values.injection.enabled (eq .Values.injection.certificates.provider "CertManager") }}yes{{ end -}}
{{- end -}}
