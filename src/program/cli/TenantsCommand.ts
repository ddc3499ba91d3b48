/**
 * `hermes tenants`: the tenants of the settings, their usage for figures and bills, and the removal of their data.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as TenantData from "../../agent/TenantData.ts"
import * as TenantRemoval from "../../agent/TenantRemoval.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import { Settings, type Values } from "../../base/config/Settings.ts"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import type { Allowance, Tenant } from "../../base/domain/Tenant.ts"
import * as TraceSettings from "../../observe/TraceSettings.ts"
import type * as RemoteSession from "../../store/RemoteSession.ts"
import type { Session } from "../../store/SessionStore.ts"
import * as SessionAudience from "../../store/SessionAudience.ts"
import { type Balance, TenantLedger, type UsageRow } from "../../store/tenants/TenantLedger.ts"
import * as TenantSettings from "../runtime/TenantSettings.ts"
import { scheduledJobs } from "./ClusterSettings.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as Confirm from "./Confirm.ts"
import { makeUnknownNameFailure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { printLine, renderTable } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { abbreviateCount, formatDollars, formatQuantity } from "./render/UsageText.ts"
import { withStore } from "./SessionChoice.ts"

const json = Flags.makeSwitch("json", "Print JSON")

const nanosPerDollar = 1_000_000_000

/** Layer of the ledger that the settings select. */
const ledger = Layer.unwrap(
  Effect.gen(function* () {
    return TenantSettings.makeLedgerLayer(yield* Settings, yield* Home)
  })
)

const toFailure = ({ message }: SessionStoreError) => makeWorkFailure(message)

const formatSpent = (tokens: number, nanos: number): string =>
  `${abbreviateCount(tokens)} tokens, ${formatDollars(nanos / nanosPerDollar)}`

const describeAllowance = (period: string, allowance: Allowance | undefined): ReadonlyArray<string> => {
  if (allowance === undefined) return []
  const { dollars, tokens } = allowance
  const limits = [
    ...(tokens === undefined ? [] : [`${abbreviateCount(tokens)} tokens`]),
    ...(dollars === undefined ? [] : [formatDollars(dollars)])
  ]
  return limits.length === 0 ? [] : [`${limits.join(", ")} a ${period}`]
}

const describeLimits = ({ callsPerMinute, concurrentRuns, perDay, perMonth, perRun }: Tenant): string =>
  [
    ...describeAllowance("run", perRun),
    ...describeAllowance("day", perDay),
    ...describeAllowance("month", perMonth),
    ...(callsPerMinute === undefined ? [] : [`${callsPerMinute} calls a minute`]),
    ...(concurrentRuns === undefined ? [] : [formatQuantity(concurrentRuns, "run")])
  ].join("; ") || "no limits"

const toRow = (tenant: Tenant, { spentThisMonth, spentToday }: Balance): ReadonlyArray<string> => [
  SafeText.toLine(tenant.id),
  `today ${formatSpent(spentToday.tokens, spentToday.nanos)}`,
  `month ${formatSpent(spentThisMonth.tokens, spentThisMonth.nanos)}`,
  describeLimits(tenant)
]

const listTenants = Effect.fn("hermes tenants list")(
  function* ({ json }: { readonly json: boolean }) {
    const tenants = TenantSettings.readTenants(yield* Settings)
    const { balance } = yield* TenantLedger
    const found = yield* Effect.forEach(tenants, (tenant) =>
      Effect.map(Effect.mapError(balance(tenant.id), toFailure), (sums) => ({ tenant, sums }))
    )
    if (json)
      return yield* printLine(
        SafeText.toJson(
          found.map(({ sums, tenant }) => ({ ...tenant, ...sums })),
          2
        )
      )
    yield* printLine(
      found.length === 0
        ? "No tenants. Add them to `tenants` in config.yaml."
        : renderTable(found.map(({ sums, tenant }) => toRow(tenant, sums)))
    )
  },
  Effect.provide(ledger),
  CommandSettings.provide
)

const columns = ["day", "tenant", "model", "calls", "inputTokens", "outputTokens", "dollars"] as const

const toFields = ({ nanos, ...row }: UsageRow) => ({ ...row, dollars: nanos / nanosPerDollar })

/** Quotes a value of a CSV file. Values that a spreadsheet would compute as formulas are prefixed. */
const toCsvValue = (value: string | number): string => {
  const text = String(value)
  const safe = typeof value === "string" && /^[=+\-@\t\r]/u.test(text) ? `'${text}` : text
  return /[",\r\n]/u.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

const renderCsv = (rows: ReadonlyArray<UsageRow>): string =>
  [
    columns.join(","),
    ...rows.map((row) => {
      const fields = toFields(row)
      return columns.map((name) => toCsvValue(fields[name])).join(",")
    })
  ].join("\n")

/** Fails unless the value of a flag is a day of the calendar. */
const checkDay = (flag: string, day: string | undefined) =>
  day === undefined || (/^\d{4}-\d{2}-\d{2}$/u.test(day) && new Date(day).toJSON()?.startsWith(day) === true)
    ? Effect.void
    : Effect.fail(makeUsageFailure(`--${flag} is a day such as 2026-11-29, not "${SafeText.toLine(day)}"`))

const formats = ["json", "jsonl", "csv"] as const

type Format = (typeof formats)[number]

/** Returns the format that the flags select, or `undefined` for a table. */
const chooseFormat = (flags: Readonly<Record<Format, boolean>>) => {
  const chosen = formats.filter((format) => flags[format])
  return chosen.length > 1
    ? Effect.fail(makeUsageFailure(`Pass one of ${chosen.map((format) => `--${format}`).join(" and ")}`))
    : Effect.succeed(chosen[0])
}

/** Renders rows of usage without a final line break. */
const renderUsage = (rows: ReadonlyArray<UsageRow>, format: Format | undefined): string => {
  if (format === "json") return SafeText.toJson(rows.map(toFields), 2)
  if (format === "jsonl") return rows.map((row) => SafeText.toJson(toFields(row))).join("\n")
  if (format === "csv") return renderCsv(rows)
  if (rows.length === 0) return "No usage."
  return renderTable(
    rows.map(({ calls, day, inputTokens, model, nanos, outputTokens, tenant }) => [
      day,
      SafeText.toLine(tenant),
      SafeText.toLine(model),
      formatQuantity(calls, "call"),
      formatSpent(inputTokens + outputTokens, nanos)
    ])
  )
}

/** Returns the names of the tenants of the settings, and of other tenants with usage. */
const listNames = Effect.fnUntraced(function* (rows: ReadonlyArray<UsageRow>) {
  const tenants = TenantSettings.readTenants(yield* Settings)
  return Array.from(new Set([...tenants.map(({ id }) => id), ...rows.map(({ tenant }) => tenant)]))
})

const makeUnknownTenantFailure = (tenant: string, known: ReadonlyArray<string>) =>
  makeUnknownNameFailure("tenant", SafeText.toLine(tenant), { known, list: "hermes tenants list" })

/** Reads usage. A name that neither the settings nor the ledger have is a usage error. */
const readUsage = Effect.fnUntraced(function* (filter: {
  readonly tenant: string | undefined
  readonly from: string | undefined
  readonly to: string | undefined
}) {
  const { usage } = yield* TenantLedger
  const rows = yield* Effect.mapError(usage(filter), toFailure)
  const { tenant } = filter
  if (tenant === undefined || rows.length > 0) return rows
  const names = yield* listNames(yield* Effect.mapError(usage({}), toFailure))
  return names.includes(tenant) ? rows : yield* makeUnknownTenantFailure(tenant, names)
})

const usage = Command.make(
  "usage",
  {
    tenant: Flags.makeText("tenant", "NAME", "Only this tenant"),
    from: Flags.makeText("from", "DAY", "First day (UTC), such as 2026-11-01"),
    to: Flags.makeText("to", "DAY", "Last day (UTC), inclusive"),
    json,
    jsonl: Flags.makeSwitch("jsonl", "Print JSON Lines, for bills"),
    csv: Flags.makeSwitch("csv", "Print CSV, for bills")
  },
  Effect.fn("hermes tenants usage")(
    function* ({ from, tenant, to, ...flags }) {
      yield* checkDay("from", from)
      yield* checkDay("to", to)
      if (from !== undefined && to !== undefined && from > to)
        return yield* makeUsageFailure(`--from ${from} is after --to ${to}`)
      const format = yield* chooseFormat(flags)
      const rows = yield* readUsage({ tenant, from, to })
      // Without rows, a file of lines is empty.
      if (format !== "jsonl" || rows.length > 0) yield* printLine(renderUsage(rows, format))
    },
    Effect.provide(ledger),
    CommandSettings.provide
  )
).pipe(Command.withDescription("Show usage by day, tenant and model"))

/** Returns the sources of the sessions of the keys of a tenant. */
const listSources = ({ server: { keys } }: Values, tenant: string): ReadonlyArray<string> =>
  Object.entries(keys)
    .filter(([, key]) => key.tenant === tenant)
    .flatMap(([name]) => SessionAudience.listSources(name))

/** Singular names of removed items. */
const itemNames: Readonly<Record<string, string>> = {
  jobs: "job",
  "runs of the cluster": "run of the cluster",
  "runs in flight": "run in flight",
  exports: "export",
  "events of streams": "event of a stream",
  "memory files": "memory file",
  "files of the workspace": "file of the workspace",
  "long results": "long result",
  "contents of changed files": "content of a changed file",
  "rows of usage": "row of usage"
}

const describeItem = (name: string, count: number): string =>
  name === "sessions"
    ? `${formatQuantity(count, "session")} with ${count === 1 ? "its run record" : "their run records"}`
    : formatQuantity(count, itemNames[name] ?? name)

/** Describes the removed items, such as `2 sessions with their run records and 1 job`. */
const describeRemoved = (removed: TenantRemoval.RemovedItems): string => {
  const items = Object.entries(removed).flatMap(([name, count]) => (count === 0 ? [] : [describeItem(name, count)]))
  const last = items.at(-1)
  return last === undefined || items.length === 1 ? (last ?? "nothing") : `${items.slice(0, -1).join(", ")} and ${last}`
}

type IsOfTenant = (session: Session) => boolean

/** Lists the ids of the sessions of a tenant, and of those that `isAlso` selects. */
const listSessionIds = (tenant: string, isAlso?: IsOfTenant) =>
  withStore(
    Effect.map(TenantData.listSessions(tenant, isAlso), (sessions) => sessions.map(({ id }): string => id)),
    Effect.succeed<ReadonlyArray<string>>([])
  )

/** Returns the part of the runs of a cluster, if the settings have one. */
const makeClusterPart = ({ cluster: { databaseUrl } }: Values, isAlso: IsOfTenant) =>
  databaseUrl === undefined
    ? []
    : [
        {
          name: "runs of the cluster",
          remove: Effect.fnUntraced(function* (tenant: string) {
            const sessions = yield* listSessionIds(tenant, isAlso)
            const { Cluster, layerClient } = yield* Effect.promise(() => import("../../serve/cluster/Cluster.ts"))
            return yield* Effect.provide(
              Cluster.use((cluster) => cluster.removeTenant(tenant, sessions)),
              layerClient({ url: databaseUrl })
            )
          })
        }
      ]

/** Removes all data of a tenant, with the sessions of its keys. Returns a sentence about it. */
const removeData = Effect.fnUntraced(function* (settings: Values, tenant: string) {
  const home = yield* Home
  const paths = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const environment = yield* Environment
  const sources = listSources(settings, tenant)
  const isOfKeys = ({ source }: { readonly source: string }): boolean => sources.includes(source)
  const { atif, atof } = TraceSettings.fromVariables(environment.get)
  const removeOutputs = (id: string) => fs.remove(paths.join(home.cron, "output", id), { force: true, recursive: true })
  const exported = [
    ...(atif === undefined ? [] : [TenantRemoval.makeExportPart("exports", atif.directory, isOfKeys)]),
    ...(atof === undefined
      ? []
      : [TenantRemoval.makeStreamPart("events of streams", atof.directory, atof.filename, isOfKeys)])
  ]
  const stored = [
    TenantRemoval.makeRunPart(isOfKeys),
    ...exported,
    TenantRemoval.makeSessionPart(isOfKeys),
    // The process of an ended run may have written its file meanwhile.
    ...exported.slice(0, atif === undefined ? 0 : 1)
  ]
  const removeStored = (part: TenantRemoval.Part<FileSystem.FileSystem | Path.Path | RemoteSession.Needs>) => ({
    name: part.name,
    remove: (id: string) => withStore(part.remove(id), Effect.succeed(0))
  })
  const removed = yield* Effect.mapError(
    TenantRemoval.removeTenant(tenant, [
      TenantRemoval.makeJobPart(removeOutputs),
      ...makeClusterPart(settings, isOfKeys),
      ...stored.map(removeStored),
      TenantRemoval.makeFolderPart("memory files", home.memories),
      TenantRemoval.makeFolderPart("long results", home.results),
      TenantRemoval.makeFolderPart("contents of changed files", paths.join(home.changes, "contents")),
      // A workspace that the settings name is not deleted.
      TenantRemoval.makeFolderPart("files of the workspace", home.root),
      TenantRemoval.usage
    ]),
    ({ message, removed }) =>
      makeWorkFailure(`${message}. Deleted before: ${describeRemoved(removed)}. Call the command again.`)
  )
  return `Deleted of ${SafeText.toLine(tenant)}: ${describeRemoved(removed)}.`
})

const remove = Command.make(
  "remove",
  {
    tenant: Argument.String("tenant").pipe(Argument.withDescription("Name of the tenant")),
    yes: Flags.makeSwitch("yes", "Do not ask", "y")
  },
  Effect.fn("hermes tenants remove")(
    function* ({ tenant, yes }) {
      const settings = yield* Settings
      const one = yield* TenantLedger
      const names = yield* listNames(yield* Effect.mapError(one.usage({ tenant }), toFailure))
      // The tenant may have left the settings before its first model call ended.
      if (!names.includes(tenant) && (yield* listSessionIds(tenant)).length === 0)
        return yield* makeUnknownTenantFailure(tenant, names)
      const name = SafeText.toLine(tenant)
      if (
        !yes &&
        !(yield* Confirm.requireConfirmation(
          `Delete the sessions of ${name} with their sub-agents and run records, its jobs, memory, files and usage?`,
          `Not a terminal. Pass --yes to delete the data of ${name}.`
        ))
      )
        return yield* printLine("Nothing was deleted")
      const deleted = yield* removeData(settings, tenant)
      yield* printLine(`${deleted} Its entry in tenants and its keys in server.keys remain in config.yaml.`)
    },
    Effect.provide([ledger, scheduledJobs]),
    CommandSettings.provide
  )
).pipe(Command.withDescription("Delete all data of a tenant"))

const list = Command.make("list", { json }, listTenants).pipe(
  Command.withDescription("List the tenants, their limits and their spending")
)

/** Without a subcommand, lists the tenants. */
export const command = Command.make("tenants", { json }, listTenants).pipe(
  Command.withSubcommands([list, usage, remove])
)
