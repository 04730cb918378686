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
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- /* The object is cluster-wide, so its name includes the release. */ -}}
{{- define "causalstore.webhook" -}}
{{ .Release.Namespace }}-{{ include "causalstore.name" . }}
{{- end -}}

{{- define "causalstore.webhookHost" -}}
{{ include "causalstore.name" . }}-webhook.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "causalstore.certManager" -}}
{{- if and .Values.injection.enabled (eq .Values.injection.certificates.provider "CertManager") }}yes{{ end -}}
{{- end -}}
