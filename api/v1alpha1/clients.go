package v1alpha1

import corev1 "k8s.io/api/core/v1"

// Clients configures how Redis clients connect to fronts and sidecars.
//
// +kubebuilder:validation:XValidation:rule="!has(self.usersSecret) || !has(self.front) || !has(self.front.enabled) || self.front.enabled || (has(self.sidecarPasswords) && self.sidecarPasswords)",message="spec.clients.usersSecret: nobody asks for passwords, because front.enabled is false and sidecarPasswords too; change one of them, or remove usersSecret"
// +kubebuilder:validation:XValidation:rule="has(self.usersSecret) || !has(self.sidecarPasswords) || !self.sidecarPasswords",message="spec.clients.sidecarPasswords: there are no users; set usersSecret"
type Clients struct {
	// UsersSecret names a Secret in the store's namespace with the users of whom clients of fronts must be one. Its
	// keys are the names of users, its values their passwords: one, or two on two lines while clients change from one
	// to the other; or #, followed by the SHA-256 digest of a password in 64 hexadecimal digits. A change applies
	// without restart. Without it, every client is accepted.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	UsersSecret string `json:"usersSecret,omitempty"`
	// SidecarPasswords makes sidecars ask for the same passwords. By default they accept every client of their pod;
	// nobody else reaches them. It applies to pods that are created afterwards.
	//
	// +optional
	SidecarPasswords bool `json:"sidecarPasswords,omitempty"`
	// SidecarResources are those of the sidecar's container in the pods of apps. They apply to pods that are created
	// afterwards. Default: requests of 10m CPU and 32Mi of memory, and a limit of 256Mi of memory.
	//
	// +optional
	SidecarResources corev1.ResourceRequirements `json:"sidecarResources,omitzero"`
	// Front configures the fronts, which serve clients without a sidecar.
	//
	// +optional
	Front Front `json:"front,omitzero"`
}

// Front configures the fronts.
//
// +kubebuilder:validation:XValidation:rule="!has(self.tls) || !has(self.enabled) || self.enabled",message="spec.clients.front.tls: the front is off; set front.enabled to true, or remove tls"
type Front struct {
	// Enabled is whether there are fronts, and Services for them. Without, only pods with a sidecar can use the store.
	// Default: true.
	//
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
	// TLS serves clients with TLS, at port 6380. Without it, they are served without TLS, at port 6379.
	//
	// +optional
	TLS *FrontTLS `json:"tls,omitempty"`
	// Resources of a front's container, in the pods of coordinators. A change restarts these one by one. Default:
	// requests of 50m CPU and 64Mi of memory, and a limit of 512Mi of memory.
	//
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
}

// FrontTLS configures TLS between clients and fronts.
type FrontTLS struct {
	// SecretName names a Secret in the store's namespace with the certificate (tls.crt) and key (tls.key), as
	// cert-manager makes them. The certificate must be valid for the names that clients connect to. A change applies
	// without restart.
	//
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName"`
	// ClientCASecretName names a Secret in the store's namespace with the authorities (ca.crt) of clients. If it is
	// set, every client needs a certificate of theirs.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ClientCASecretName string `json:"clientCASecretName,omitempty"`
	// Plaintext also serves clients without TLS, at port 6379.
	//
	// +optional
	Plaintext bool `json:"plaintext,omitempty"`
}

// IsEnabled reports whether there are fronts.
func (f *Front) IsEnabled() bool { return f.Enabled == nil || *f.Enabled }

// ServesPlaintext reports whether fronts serve clients without TLS.
func (f *Front) ServesPlaintext() bool { return f.IsEnabled() && (f.TLS == nil || f.TLS.Plaintext) }

// ServesTLS reports whether fronts serve clients with TLS.
func (f *Front) ServesTLS() bool { return f.IsEnabled() && f.TLS != nil }

func (c *Clients) validate(store string, mode InjectionMode, p *problems) {
	p.require(c.UsersSecret == "" || c.Front.IsEnabled() || c.SidecarPasswords,
		"spec.clients.usersSecret: nobody asks for passwords, because front.enabled is false and sidecarPasswords "+
			"too; change one of them, or remove usersSecret")
	p.require(c.UsersSecret != "" || !c.SidecarPasswords,
		"spec.clients.sidecarPasswords: there are no users; set usersSecret")
	p.require(c.Front.TLS == nil || c.Front.IsEnabled(),
		"spec.clients.front.tls: the front is off; set front.enabled to true, or remove tls")
	p.require(c.UsersSecret == "" || c.UsersSecret != store+"-keys" && c.UsersSecret != store+"-acl",
		"spec.clients.usersSecret: the operator makes a Secret of this name; use another one")
	p.require(c.Front.IsEnabled() || mode != InjectRedirect,
		"spec.injection.mode: Redirect needs the Services of the front, which is off; use LoopbackNames or Explicit")
}
