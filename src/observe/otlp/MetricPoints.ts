/**
 * Counters and histograms by their labels, with exemplars. Each counter and each bucket of a histogram has an exemplar:
 * the last value that was recorded by a span, which links the value to a trace.
 *
 * **Details**
 *
 * A snapshot removes the exemplars; `delta` values count from the last snapshot that was sent. The minimum and the
 * maximum cover all values since the start. They are therefore left out of every `delta` snapshot after the first.
 *
 * Source: OpenTelemetry, "Metrics SDK" and "Metrics Data Model".
 */

/** Labels of a data point. Recording is fastest if the same object is reused for equal labels. */
export type Labels = Readonly<Record<string, string>>

/** A metric. It is a histogram if it has boundaries, otherwise a counter. */
export interface Instrument {
  readonly name: string
  readonly description: string
  readonly unit: string
  readonly boundaries?: ReadonlyArray<number> | undefined
}

/** A value and the span that recorded it. */
export interface Exemplar {
  readonly traceId: string
  readonly spanId: string
  /** Time of the value, in epoch milliseconds. */
  readonly at: number
  readonly value: number
}

/** Totals of the values with the same labels. */
export interface Sums {
  readonly count: number
  readonly sum: number
  /** Number of values in each bucket of a histogram. The last bucket is above all boundaries. */
  readonly buckets: ReadonlyArray<number>
}

/** A data point of a snapshot. */
export interface Point extends Sums {
  readonly labels: Labels
  /** Minimum and maximum value, or `undefined` if unknown. */
  readonly range: { readonly min: number; readonly max: number } | undefined
  /** Exemplars in the order of their buckets. */
  readonly exemplars: ReadonlyArray<Exemplar>
}

/** Data points of a metric. */
export interface Metric {
  readonly instrument: Instrument
  readonly points: ReadonlyArray<Point>
}

/** Metrics of a time range. */
export interface Snapshot {
  readonly metrics: ReadonlyArray<Metric>
  readonly temporality: "cumulative" | "delta"
  /** Start of the time range, in epoch milliseconds. */
  readonly from: number
  readonly to: number
}

/** Records values of metrics and takes snapshots of them. */
export interface MetricPoints {
  readonly record: (
    instrument: Instrument,
    labels: Labels,
    value: number,
    exemplar: Omit<Exemplar, "value"> | undefined
  ) => void
  /** Takes a snapshot of the metrics. `sent` must be called once the snapshot has been sent. */
  readonly take: (at: number) => { readonly snapshot: Snapshot; readonly sent: () => void }
}

interface LabelCounter {
  readonly labels: Labels
  count: number
  sum: number
  min: number
  max: number
  readonly buckets: Array<number>
  exemplars: Map<number, Exemplar>
  sent: Sums | undefined
}

interface InstrumentCounters {
  readonly instrument: Instrument
  readonly byText: Map<string, LabelCounter>
  /** The same counters by label object. Label objects are reused, so this lookup is fast. */
  readonly byLabels: WeakMap<Labels, LabelCounter>
}

const findBucket = (boundaries: ReadonlyArray<number>, value: number): number => {
  for (let index = 0; index < boundaries.length; index++) if (value <= (boundaries[index] ?? 0)) return index
  return boundaries.length
}

const serializeLabels = (labels: Labels): string =>
  JSON.stringify(Object.entries(labels).toSorted(([a], [b]) => (a < b ? -1 : 1)))

const copySums = ({ buckets, count, sum }: LabelCounter): Sums => ({ count, sum, buckets: buckets.slice() })

/** Creates a recorder of metrics. `since` is the start of its first time range, in epoch milliseconds. */
export const make = (temporality: Snapshot["temporality"], since: number): MetricPoints => {
  const all = new Map<string, InstrumentCounters>()
  let from = since

  const getCounter = (instrument: Instrument, labels: Labels): LabelCounter => {
    const known: InstrumentCounters = all.get(instrument.name) ?? {
      instrument,
      byText: new Map(),
      byLabels: new WeakMap()
    }
    all.set(instrument.name, known)
    const before = known.byLabels.get(labels)
    if (before !== undefined) return before
    const text = serializeLabels(labels)
    const counted = known.byText.get(text) ?? {
      labels,
      count: 0,
      sum: 0,
      min: Number.POSITIVE_INFINITY,
      max: Number.NEGATIVE_INFINITY,
      buckets: Array.from(instrument.boundaries === undefined ? [] : [...instrument.boundaries, 0], () => 0),
      exemplars: new Map(),
      sent: undefined
    }
    known.byText.set(text, counted)
    known.byLabels.set(labels, counted)
    return counted
  }
  const takePoint = (counted: LabelCounter): Point => {
    const { buckets, count, exemplars, labels, max, min, sent, sum } = counted
    counted.exemplars = new Map()
    const shown = Array.from(exemplars)
      .toSorted(([a], [b]) => a - b)
      .map(([, exemplar]) => exemplar)
    return temporality === "delta" && sent !== undefined
      ? {
          labels,
          count: count - sent.count,
          sum: sum - sent.sum,
          buckets: buckets.map((one, index) => one - (sent.buckets[index] ?? 0)),
          range: undefined,
          exemplars: shown
        }
      : { labels, ...copySums(counted), range: { min, max }, exemplars: shown }
  }

  return {
    record: (instrument, labels, value, exemplar) => {
      const counted = getCounter(instrument, labels)
      const bucket = instrument.boundaries === undefined ? 0 : findBucket(instrument.boundaries, value)
      counted.count++
      counted.sum += value
      counted.min = Math.min(counted.min, value)
      counted.max = Math.max(counted.max, value)
      if (instrument.boundaries !== undefined) counted.buckets[bucket] = (counted.buckets[bucket] ?? 0) + 1
      if (exemplar !== undefined) counted.exemplars.set(bucket, { ...exemplar, value })
    },
    take: (at) => {
      const points = Array.from(all.values(), ({ byText, instrument }) => ({
        instrument,
        counted: Array.from(byText.values())
      }))
      const metrics = points.map(({ counted, instrument }) => ({ instrument, points: counted.map(takePoint) }))
      const sums = points.flatMap(({ counted }) => counted.map((one) => [one, copySums(one)] as const))
      return {
        snapshot: { metrics, temporality, from, to: at },
        sent: () => {
          if (temporality === "cumulative") return
          for (const [one, sum] of sums) one.sent = sum
          from = at
        }
      }
    }
  }
}
