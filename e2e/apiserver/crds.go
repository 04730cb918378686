package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// InstallCRDs creates the CRDs of a folder, and waits until they are served.
func InstallCRDs(ctx context.Context, config *rest.Config, dir string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there are no CRDs in %s", dir))
	}
	for _, file := range files {
		if err := install(ctx, config, client, file); err != nil {
			return fmt.Errorf("install %s: %w", file, err)
		}
	}
	return nil
}

func install(ctx context.Context, config *rest.Config, client dynamic.Interface, file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if b, err = yaml.YAMLToJSON(b); err != nil {
		return err
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(b, u); err != nil {
		return err
	}
	made, err := client.Resource(crds).Create(ctx, u, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	return awaitServed(ctx, config, client, made)
}

// awaitServed waits until a CRD is served and listed: that the one is so does not mean that the other is.
func awaitServed(ctx context.Context, config *rest.Config, client dynamic.Interface, crd *unstructured.Unstructured) error {
	lists, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	spec := crd.Object["spec"].(map[string]any)
	version := spec["versions"].([]any)[0].(map[string]any)["name"].(string)
	plural := spec["names"].(map[string]any)["plural"].(string)
	served := schema.GroupVersionResource{Group: spec["group"].(string), Version: version, Resource: plural}
	for {
		_, err := client.Resource(served).List(ctx, metav1.ListOptions{Limit: 1})
		if err == nil {
			err = listed(lists, served)
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not served: %w", crd.GetName(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func listed(lists discovery.DiscoveryInterface, what schema.GroupVersionResource) error {
	all, err := lists.ServerResourcesForGroupVersion(what.GroupVersion().String())
	if err == nil && !slices.ContainsFunc(all.APIResources, func(r metav1.APIResource) bool { return r.Name == what.Resource }) {
		err = fmt.Errorf("%s is not among the resources of %s", what.Resource, what.GroupVersion())
	}
	return err
}
