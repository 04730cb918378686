package middleman

import "github.com/causalstore/causalstore/sidecar/causal"

// Writes to storage (PROTOCOL §5, put-after, step 3). A task reads the current record, and replaces it if its put has a
// greater version.

// startWrite starts the write of a put: with reading the current record, unless that is known and the put replaces it.
// A put that may lose reads first, so that nothing is marked as processed in the step that submits it.
func (m *Middleman) startWrite(t *task) {
	if rec, known := m.oldVersions.stored(t.key); known && m.backfill == nil && rec.Version.Less(t.put.record.Version) {
		t.stored, t.found, t.unread = true, true, true
		m.holdReplaced(t, rec)
	}
	m.requestWrite(t)
}

// continueWrite takes the result of the task's last storage request.
func (m *Middleman) continueWrite(now causal.Now, t *task, r StorageResult) {
	p := t.put
	trustFailed := m.cfg.Broken.Has(causal.TrustFailedWrite)
	switch {
	case r.Failed:
		// Whether the write was done is unknown, so it is done again, and the tasks behind it keep waiting.
		t.stored = t.stored && !trustFailed
		m.tasks.retries = append(m.tasks.retries, t)
	case !t.stored && trustFailed && r.Record.Version == p.record.Version:
		m.markProcessed(now, p, false)
		m.tasks.releaseWrite(t)
	case !t.stored && p.record.Version.Less(r.Record.Version):
		m.markSuperseded(now, append(t.coalesced, p))
		m.tasks.releaseWrite(t)
	case !t.stored:
		// Also if the same version is there already: it is from before a restart, and perhaps was never made durable.
		t.stored, t.found, t.foreign = true, r.Found, r.Foreign
		m.holdReplaced(t, r.Record)
		m.requestWrite(t)
	default:
		m.keepReplaced(t)
		if p.record.Value.Tombstone {
			m.tombstones.add(t.key, p.record.Version)
		}
		m.markProcessed(now, p, false)
		m.markSuperseded(now, t.coalesced)
		m.tasks.releaseWrite(t)
	}
}

// holdReplaced holds the record that a write is about to replace, unless all writes in progress hold as much as old
// versions may take: storage that is slow would fill the memory.
func (m *Middleman) holdReplaced(t *task, rec causal.Record) {
	size := rec.Value.Size()
	if held := m.tasks.replacedBytes; held > 0 && held+size > m.cfg.MaxHistoryBytes {
		t.unkept = true
		return
	}
	t.replaced = rec
	m.tasks.replacedBytes += size
}

// keepReplaced keeps the record that a write has replaced, for reads at a cut.
func (m *Middleman) keepReplaced(t *task) {
	if !t.unkept {
		m.tasks.replacedBytes -= t.replaced.Value.Size()
	}
	switch rec := t.put.record; {
	case t.foreign || t.unkept:
		// when a foreign value was written is unknown, so the versions before it do not help; nor do those before a gap
		m.oldVersions.forget(t.key)
	case t.replaced.Version != rec.Version:
		m.oldVersions.add(t.key, t.replaced, rec, !(t.unread && m.cfg.Broken.Has(causal.StoredNotUpdated)))
	}
}

// markSuperseded marks puts as processed that lose to the version in storage.
func (m *Middleman) markSuperseded(now causal.Now, puts []*put) {
	for _, p := range puts {
		m.oldVersions.addSuperseded(p.key, p.record)
		m.markProcessed(now, p, true)
	}
}

// requestWrite issues the next storage request of a write.
func (m *Middleman) requestWrite(t *task) {
	op := StorageOp{Kind: StorageRead, Key: t.key}
	if t.stored {
		op.Kind, op.Record, op.KeyExists = StorageWrite, t.put.record, t.found
		if t.put.record.Value.Tombstone && m.cfg.Broken.Has(causal.DeleteRemoves) {
			op.Kind = StorageDelete
		}
	}
	m.tasks.request(op, t)
}

// retryWrites repeats the storage requests that have failed.
func (m *Middleman) retryWrites() {
	failed := m.tasks.retries
	m.tasks.retries = nil
	for _, t := range failed {
		if t.kind == taskMerge {
			m.requestMerge(t)
			continue
		}
		m.requestWrite(t)
	}
}
