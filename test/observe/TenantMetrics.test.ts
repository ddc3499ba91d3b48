// The tenant of a run in metrics: a label with a bounded number of values.
import { assert, describe, it } from "@effect/vitest"
import type { Labels } from "../../src/observe/otlp/MetricPoints.ts"
import * as Metrics from "../../src/observe/otel/Metrics.ts"
import type { Run } from "../../src/observe/RunNodes.ts"
import type { Span } from "../../src/observe/RunSpans.ts"

/** The span of a run, with the fields that metrics read. */
const makeSpan = (tenant: string | undefined): Span => {
  const node = {
    kind: "run",
    sessionId: "s",
    turnId: "t",
    startedAt: 0,
    start: { _tag: "RunStarted", provider: "p", model: "m", ...(tenant === undefined ? {} : { tenant }) },
    steps: [],
    sideTasks: [],
    messages: [],
    asides: [],
    children: []
  }
  // A whole run has fields that metrics do not read.
  return { node: node as unknown as Run, startedAt: 0, endedAt: 1, outcome: { _tag: "Done" } } as unknown as Span
}

const readTenants = (tenants: ReadonlyArray<string | undefined>): ReadonlyArray<string | undefined> => {
  const seen: Array<Labels> = []
  for (const tenant of tenants) Metrics.recordSpan(makeSpan(tenant), "agent", (_, labels) => void seen.push(labels))
  return seen.map((labels) => labels["hermes.tenant.id"])
}

describe("metrics of runs of tenants", () => {
  it("name the tenant, and have no label without one", () => {
    assert.deepStrictEqual(readTenants(["acme", undefined, "zeta", "acme"]), ["acme", undefined, "zeta", "acme"])
  })

  it("have at most a hundred tenants; the rest share a label", () => {
    const names = Array.from({ length: 10_000 }, (_, at) => `tenant-${at}`)
    const labels = new Set(readTenants(names))
    assert.isTrue(labels.has("other"))
    assert.isAtMost(labels.size, 101)
    assert.deepStrictEqual(readTenants(["acme", "tenant-9999"]), ["acme", "other"])
  })
})
