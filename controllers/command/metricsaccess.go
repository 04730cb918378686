package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsReader decides who may read the operator's metrics: the API server says whose token a request has, and whether
// RBAC allows that user to get the URL. The filter of controller-runtime does the same with the libraries of the API
// server, which would add a tenth to the size of the binary that each sidecar runs.
type metricsReader struct{ api kubernetes.Interface }

// newMetricsFilter returns a server.Options.FilterProvider.
func newMetricsFilter(config *rest.Config, client *http.Client) (server.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, err
	}
	return (&metricsReader{api}).filter, nil
}

func (m *metricsReader) filter(log logr.Logger, next http.Handler) (http.Handler, error) {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := m.check(r.Context(), r.Header.Get("Authorization"), r.URL.Path)
		if err != nil {
			log.Error(err, "metrics not served")
		}
		if status != http.StatusOK {
			http.Error(w, http.StatusText(status), status)
			return
		}
		next.ServeHTTP(w, r)
	}), nil
}

// check returns the status of the answer to a request for a path.
func (m *metricsReader) check(ctx context.Context, authorization, path string) (int, error) {
	token, ok := strings.CutPrefix(authorization, "Bearer ")
	if !ok || token == "" {
		return http.StatusUnauthorized, nil
	}
	who, err := m.api.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("ask the API server whose token it is: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user, extra := who.Status.User, map[string]authorizationv1.ExtraValue{}
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := m.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{User: user.Username, UID: user.UID, Groups: user.Groups,
			Extra:                 extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}}},
		metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("ask the API server whether %s may get %s: %w",
			user.Username, path, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
