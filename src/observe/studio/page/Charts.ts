/** Charts over days. Each chart also has a table with the same numbers, for readers who cannot see the chart. */
import uPlot from "uplot"
import { el, make } from "../../trace/page/Elements.ts"

/** A line, or a set of bars, of a chart. `value` formats a number. */
export interface Series {
  readonly label: string
  /** Name of a colour that the style sheet defines. */
  readonly colour: string
  readonly values: ReadonlyArray<number | null>
}

/** A chart over days. */
export interface Chart {
  readonly title: string
  /** Days in ascending order, as `2026-11-22`. */
  readonly days: ReadonlyArray<string>
  readonly series: ReadonlyArray<Series>
  readonly value: (value: number) => string
  /** Upper end of the axis. The default is a little above the highest value. */
  readonly top?: number | undefined
  /** Kind of chart. Bars are stacked on each other; lines are not. */
  readonly kind: "bars" | "lines"
}

const height = 190
const halfDay = 43_200
const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" })

const readColour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "gray"

/** Returns midnight of a day in the reader's time zone, in seconds since the epoch. */
const seconds = (day: string): number => new Date(`${day}T00:00:00`).getTime() / 1000

/** Returns the cumulative sums of the series. The last one drawn is the lowest. */
const stackSeries = (series: ReadonlyArray<Series>): ReadonlyArray<ReadonlyArray<number | null>> => {
  const sums: Array<ReadonlyArray<number | null>> = []
  for (const { values } of series) {
    const before = sums.at(-1)
    sums.push(values.map((value, index) => (value ?? 0) + (before?.[index] ?? 0)))
  }
  return sums
}

/** Returns the limits of the time axis, extended by half a day on both sides for the first and the last bar. */
const limits = (days: ReadonlyArray<string>): [number, number] => [
  seconds(days[0] ?? "1970-01-01") - halfDay,
  seconds(days.at(-1) ?? "1970-01-01") + halfDay
]

/** Possible distances between ticks, in whole days. */
const tickDays = [1, 2, 3, 7, 14, 30, 60, 90, 180, 365].map((days) => days * 2 * halfDay)

/** Describes a series in the legend while no day is pointed at: the sum of bars, the last value of a line. */
const summariseSeries = (
  values: ReadonlyArray<number | null>,
  kind: Chart["kind"],
  format: (value: number) => string
): string => {
  if (kind === "bars") return `${format(values.reduce<number>((sum, one) => sum + (one ?? 0), 0)) || "0"} in all`
  const last = values.findLast((one) => one !== null)
  return last === undefined || last === null ? "" : `${format(last)} latest`
}

const options = (
  { days, kind, series, top, value }: Chart,
  width: number,
  order: ReadonlyArray<number>
): uPlot.Options => {
  const dim = readColour("dim")
  const line = { stroke: readColour("line"), width: 1 }
  const bars = uPlot.paths.bars?.({ size: [0.7, 40], align: 0 })
  const axis = { stroke: dim, grid: line, ticks: line, font: "11px system-ui, sans-serif" }
  return {
    width,
    height,
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { show: true, live: true },
    scales: {
      x: { time: true, range: () => limits(days) },
      y: { range: (_, __, max) => [0, top ?? (max > 0 ? max * 1.08 : 1)] }
    },
    axes: [
      {
        ...axis,
        space: 60,
        size: 32,
        incrs: tickDays,
        values: (_, splits) =>
          splits.map((split) =>
            split % 1 === 0 && new Date(split * 1000).getHours() === 0 ? day.format(split * 1000) : ""
          )
      },
      { ...axis, size: 62, values: (_, splits) => splits.map((split) => value(split)) }
    ],
    series: [
      { label: "Day", value: (_, at) => (at === null ? "all" : day.format(at * 1000)) },
      ...order.map((index): uPlot.Series => {
        const { colour, label, values } = series[index] ?? { colour: "dim", label: "", values: [] }
        return {
          label,
          stroke: readColour(colour),
          width: kind === "bars" ? 0 : 2,
          points: { show: kind === "lines" && values.length < 40, size: 5 },
          // The legend of stacked bars shows the value of the series, not the cumulative sum.
          value: (_, __, ___, place) =>
            place === null ? summariseSeries(values, kind, value) : value(values[place] ?? 0),
          ...(kind === "bars" ? { fill: readColour(colour), ...(bars === undefined ? {} : { paths: bars }) } : {})
        }
      })
    ]
  }
}

const renderNumbers = ({ days, series, title, value }: Chart): HTMLElement =>
  make(
    "details",
    { class: "numbers" },
    el("summary", "", "Numbers"),
    make(
      "div",
      { class: "wide", tabindex: "0", role: "region", "aria-label": `${title}: numbers` },
      make(
        "table",
        { class: "figures" },
        make(
          "thead",
          {},
          make(
            "tr",
            {},
            make("th", { scope: "col", class: "l" }, "Day"),
            ...series.map(({ label }) => make("th", { scope: "col" }, label))
          )
        ),
        make(
          "tbody",
          {},
          ...days.map((day, index) =>
            make(
              "tr",
              {},
              make("th", { scope: "row", class: "l" }, day),
              ...series.map(({ values }) => {
                const one = values[index]
                return el("td", "", one === null || one === undefined ? "" : value(one))
              })
            )
          )
        )
      )
    )
  )

/** Creates charts that fill the available width. */
export const charts = (all: ReadonlyArray<Chart>): { readonly element: HTMLElement; readonly close: () => void } => {
  const plots: Array<{ readonly chart: Chart; readonly place: HTMLElement; plot: uPlot | undefined }> = []
  const element = make("div", { class: "charts" })
  for (const chart of all) {
    const place = make("div", {
      class: "plot",
      role: "img",
      "aria-label":
        `${chart.title} for each day, from ${chart.days[0] ?? ""} to ${chart.days.at(-1) ?? ""}; ` +
        `the numbers are below`
    })
    plots.push({ chart, place, plot: undefined })
    element.append(make("figure", { class: "chart" }, make("figcaption", {}, chart.title), place, renderNumbers(chart)))
  }
  const draw = (one: (typeof plots)[number]): void => {
    const { chart, place } = one
    one.plot?.destroy()
    const sums = chart.kind === "bars" ? stackSeries(chart.series) : chart.series.map(({ values }) => values)
    // The highest sum is drawn first, so that lower ones are drawn over it.
    const order = chart.series.map((_, index) => (chart.kind === "bars" ? chart.series.length - 1 - index : index))
    const data: uPlot.AlignedData = [chart.days.map(seconds), ...order.map((index) => [...(sums[index] ?? [])])]
    one.plot = new uPlot(options(chart, Math.max(200, place.clientWidth), order), data, place)
  }
  const observer = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const one = plots.find(({ place }) => place === target)
      if (one !== undefined && one.plot?.width !== Math.max(200, one.place.clientWidth)) draw(one)
    }
  })
  for (const { place } of plots) observer.observe(place)
  const scheme = matchMedia("(prefers-color-scheme: dark)")
  const recolour = (): void => plots.forEach(draw)
  scheme.addEventListener("change", recolour)
  return {
    element,
    close: () => {
      observer.disconnect()
      scheme.removeEventListener("change", recolour)
      for (const { plot } of plots) plot?.destroy()
    }
  }
}
