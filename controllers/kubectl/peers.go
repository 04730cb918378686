package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/causalstore/causalstore/api/v1alpha1"
	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/controllers/causalstore/plan"
)

// peerReport is how the first coordinator of a data center finds the others, or why that is not known.
type peerReport struct {
	peers []contract.Peer
	err   error
}

// peerReports are those of data centers.
type peerReports map[string]peerReport

// readPeers asks the first coordinator of each data center how it finds the others.
func (k *connection) readPeers(ctx context.Context, parts []corev1.Pod) (peerReports, error) {
	pods, err := typedv1.NewForConfig(k.config)
	if err != nil {
		return nil, err
	}
	all := peerReports{}
	var writing sync.Mutex
	var running sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		if p.Labels[plan.LabelComponent] != plan.ComponentCoordinator || plan.Index(p) != 0 ||
			p.Status.Phase != corev1.PodRunning {
			continue
		}
		running.Go(func() {
			report, err := readReadiness(ctx, pods, p)
			if err != nil {
				err = fmt.Errorf("read %s of %s: %w", contract.PathReady, p.Name, err)
			}
			writing.Lock()
			defer writing.Unlock()
			all[p.Labels[plan.LabelDataCenter]] = peerReport{report.Peers, err}
		})
	}
	running.Wait()
	return all, nil
}

// readReadiness reads the report of a part through the API server. A part that is not ready answers with an error and a
// report.
func readReadiness(ctx context.Context, pods typedv1.CoreV1Interface, p *corev1.Pod) (report contract.Readiness,
	err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	content, err := pods.RESTClient().Get().Namespace(p.Namespace).Resource("pods").SubResource("proxy").
		Name(p.Name + ":" + strconv.Itoa(plan.PortHTTP)).Suffix(contract.PathReady).Do(ctx).Raw()
	if isReport(content) {
		err = nil
	}
	if err != nil {
		return report, err
	}
	return report, json.Unmarshal(content, &report)
}

// add takes over the reports of a region.
func (p peerReports) add(of peerReports) {
	for dc, report := range of {
		p[dc] = report
	}
}

// linkColumns are those of linkRows.
var linkColumns = []string{"FROM", "TO", "STATE", "LINKS", "ROUND TRIP"}

// linkRow is one direction between data centers of two regions, as the first coordinator at its start finds it.
type linkRow struct {
	from, to string
	cells    []string
	// remark is the version that runs there if it is another one, or why a link is down.
	remark string
}

// linksBetweenRegions lists what data centers that run in some context report of those of other regions.
func (v *storeRegions) linksBetweenRegions(reports peerReports) (rows []linkRow) {
	all := v.dataCenters()
	for i := range all {
		at := v.runs(all[i].Name)
		if len(at) == 0 {
			continue
		}
		if _, asked := reports[all[i].Name]; !asked && at[0].err != nil {
			reports[all[i].Name] = peerReport{err: at[0].err}
		}
		for j := range all {
			if all[i].Region != all[j].Region {
				rows = append(rows, describeLink(&all[i], &all[j], reports))
			}
		}
	}
	return rows
}

func describeLink(from, to *v1alpha1.DataCenter, reports peerReports) linkRow {
	row := linkRow{from: from.Name, to: to.Name,
		cells: []string{from.Name + " (" + from.Region + ")", to.Name + " (" + to.Region + ")"}}
	report, asked := reports[from.Name]
	i := slices.IndexFunc(report.peers, func(p contract.Peer) bool { return p.DataCenter == to.Name })
	switch {
	case !asked:
		row.cells, row.remark = append(row.cells, "not known", "-", "-"), "no first coordinator runs"
		return row
	case report.err != nil:
		row.cells, row.remark = append(row.cells, "not known", "-", "-"), oneLine(report.err)
		return row
	case i < 0:
		row.cells = append(row.cells, "not known", "-", "-")
		row.remark = "no attempt to connect has ended yet"
		return row
	}
	p := report.peers[i]
	trip := "-"
	if p.RoundTripMs != nil {
		trip = formatRounded(time.Duration(*p.RoundTripMs * float64(time.Millisecond)))
	}
	row.cells = append(row.cells, string(p.State), fmt.Sprintf("%d/%d", p.LinksUp, p.Links), trip)
	switch {
	case p.Error != "" && (!p.State.IsConnected() || p.LinksUp < p.Links):
		row.remark = p.Error
	case p.Version != "":
		row.remark = "version " + p.Version
	}
	return row
}
