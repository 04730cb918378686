package causalstore_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/causalstore/causalstore/api/v1alpha1"
)

func TestKubectlGetShowsWhatMatters(t *testing.T) {
	k := newCluster(t)
	k.operator("local", "causalstore:v1")
	k.sample("three-rings.yaml", nil)
	k.awaitCondition("rings", v1alpha1.ConditionReady, yes, v1alpha1.ReasonAllPartsReady)
	c, err := kubernetes.NewForConfig(k.config)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := c.RESTClient().Get().AbsPath("/apis/causalstore.io/v1alpha1/namespaces/"+k.namespace+
		"/causalstores/rings").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var table metav1.Table
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	var columns, wide []string
	for i, column := range table.ColumnDefinitions {
		cell := fmt.Sprintf("%s=%v", column.Name, table.Rows[0].Cells[i])
		if column.Name == "Age" || column.Name == "Heartbeat" {
			if cell == column.Name+"=<nil>" {
				t.Errorf("column %s is empty", column.Name)
			}
			cell = column.Name
		}
		if column.Priority == 0 {
			columns = append(columns, cell)
		} else {
			wide = append(wide, cell)
		}
	}
	if got, want := strings.Join(columns,
		", "), "Name=rings, Ready=True, Rings=3/3, DCs=3/3, Visibility lag=<nil>, Heartbeat, Age"; got != want {
		t.Errorf("columns are %s\nwant        %s", got, want)
	}
	if got, want := strings.Join(wide,
		", "),
		"Engine=Redis, Epoch=1, Paused=False, Under-replicated=False, Reason=AllPartsReady, Message=all parts of 3 "+
			"data centers serve"; got != want {
		t.Errorf("wide columns are %s\nwant             %s", got, want)
	}
}
