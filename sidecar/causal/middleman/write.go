package middleman

import (
	"github.com/causalstore/causalstore/sidecar/causal"
	"github.com/causalstore/causalstore/sidecar/causal/keystate"
)

// Writes to storage (PROTOCOL MM-6). A task reads the current record, and replaces it by what that and
// its puts make of the key, unless that is what storage has.

// startWrite starts the write of a put: with reading the current record, unless that is known and the put changes it. A
// put that may lose reads first, so that nothing is marked as processed in the step that submits it.
func (m *Middleman) startWrite(t *task) {
	if rec, known := m.oldVersions.stored(t.key); known && m.backfill == nil {
		if joined, changed := keystate.Add(m.cfg.Types, rec, *t.record()); changed {
			t.write(joined)
			t.stored, t.found, t.unread = true, true, true
			m.holdReplaced(t, rec)
		}
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
	case !t.stored:
		if m.backfill != nil && m.backfill.mayHaveLost(t, &r) {
			r.Record = causal.Record{}
		}
		joined, _ := keystate.Add(m.cfg.Types, r.Record, *t.record())
		if keystate.IsStored(&joined, &r.Record, &p.record) {
			m.markSuperseded(now, append(t.coalesced, p))
			m.tasks.releaseWrite(t)
			return
		}
		// Also if the same version is there already: it is from before a restart, and perhaps was never made durable.
		t.write(joined)
		t.stored, t.found, t.foreign = true, r.Found, r.Foreign
		m.holdReplaced(t, r.Record)
		m.requestWrite(t)
	default:
		m.finishWrite(now, t)
	}
}

// finishWrite follows the write of a task, which is durable. Of registers, the newest was written, and has superseded
// the others.
func (m *Middleman) finishWrite(now causal.Now, t *task) {
	m.keepReplaced(t)
	stored := t.record()
	m.noteRemoved(t.key, stored)
	m.markWritten(now, stored, t.put)
	for _, p := range t.coalesced {
		m.markWritten(now, stored, p)
	}
	m.tasks.releaseWrite(t)
}

// markWritten marks a put as processed that was joined with what is in storage now.
func (m *Middleman) markWritten(now causal.Now, stored *causal.Record, p *put) {
	if keystate.IsOverwritten(stored, &p.record) {
		m.oldVersions.addSuperseded(p.key, p.record)
		m.markProcessed(now, p, true)
		return
	}
	m.markProcessed(now, p, false)
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

// keepReplaced keeps what a write has replaced, for reads at a cut.
func (m *Middleman) keepReplaced(t *task) {
	if !t.unkept {
		m.tasks.replacedBytes -= t.replaced.Value.Size()
	}
	keepStored := !(t.unread && m.cfg.Broken.Has(causal.StoredNotUpdated))
	switch stored := t.record(); {
	case t.foreign || t.unkept:
		// when a foreign value was written is unknown, so the versions before it do not help; nor do those before a gap
		m.oldVersions.forget(t.key)
	case t.replaced.Value.Merges() || stored.Value.Merges():
		m.oldVersions.merge(t.key, t.replaced, *stored, append(t.coalesced, t.put), keepStored)
	case t.replaced.Version != stored.Version:
		m.oldVersions.add(t.key, t.replaced, *stored, keepStored)
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
		op.Kind, op.Record, op.KeyExists = StorageWrite, *t.record(), t.found
		if t.record().Value.Tombstone && m.cfg.Broken.Has(causal.DeleteRemoves) {
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
			m.backfill.requestMerge(t)
			continue
		}
		m.requestWrite(t)
	}
}
