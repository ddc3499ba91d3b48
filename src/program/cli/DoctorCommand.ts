/**
 * `hermes doctor`: checks everything that a run needs. It changes nothing and shows no secrets.
 *
 * Sources are shown by name: the setting, variable or flag that supplied the address and the key of each route. The
 * states of keys and breakers come from a router with the same settings as in a run; no network request is made.
 * Suspended keys stay suspended between runs; a breaker exists only while a program runs, and starts closed.
 *
 * Source: `hermes-product.md` §1.6, `hermes-llm.md` §17.2, §17.3.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Command from "effect/cli/Command"
import { Environment, HiddenVariables, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { formatTenant } from "../../base/domain/Tenant.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type { RouteStatus } from "../../models/routing/ModelRouter.ts"
import * as PoolStore from "../../models/routing/PoolStore.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"
import * as RoutedModelRouter from "../../models/routing/RoutedModelRouter.ts"
import { noKey } from "../../models/routing/RouteKeys.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as ConfiguredEnvironment from "../../tools/ConfiguredEnvironment.ts"
import * as Permissions from "../../tools/approval/Permissions.ts"
import * as StoredSessions from "../runtime/StoredSessions.ts"
import { load, surroundings } from "./CommandSettings.ts"
import * as ConfiguredModels from "./ConfiguredModels.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { findExistingDirectory } from "./ExistingDirectory.ts"
import { makeWorkFailure } from "./Failure.ts"
import { hermes } from "./Hermes.ts"
import { version } from "../../base/domain/Version.ts"
import { nodeVersion } from "../../base/platform/CurrentProcess.ts"
import { printLine } from "./ProgramOutput.ts"
import * as RouteText from "./render/RouteText.ts"
import * as SafeText from "./render/SafeText.ts"

interface Finding {
  readonly level: "ok" | "warning" | "problem"
  readonly subject: string
  readonly text: string
}

const makeFinding =
  (level: Finding["level"]) =>
  (subject: string, text: string): Finding => ({ level, subject, text })

/** Creates a finding without a problem. */
const ok = makeFinding("ok")

/** Creates a finding about something that works but could be improved. */
const warning = makeFinding("warning")

/** Creates a finding about something that does not work. */
const problem = makeFinding("problem")

const marks: Readonly<Record<Finding["level"], string>> = { ok: "✓", warning: "!", problem: "✗" }

/** Renders a finding as a line. */
const renderFinding = ({ level, subject, text }: Finding): string => `${marks[level]} ${subject.padEnd(8)}  ${text}`

type Keys = RouteStatus["keys"]

const describeKeys = (route: RoutedModelRouter.ChainEntry["route"], keys: Keys): string => {
  if (keys.length > 1) return [`${keys.length} keys`, ...RouteText.describeResting(keys)].join(", ")
  if (route.apiKey === undefined) return route.apiMode === "bedrock_converse" ? "credentials of the AWS SDK" : "no key"
  return Redacted.value(route.apiKey) === Redacted.value(noKey) ? "no key" : "a key is set"
}

const describeRoute = (
  { route }: RoutedModelRouter.ChainEntry,
  { breaker, keys }: RouteStatus,
  place: { readonly index: number; readonly count: number }
): Finding => {
  const { apiMode, baseUrl, model, provider } = route
  const breakers = place.count > 1 ? `, breaker ${breaker.toLowerCase()}` : ""
  const text =
    `${model} of ${provider} by ${apiMode}${baseUrl === undefined ? "" : ` at ${baseUrl}`}, ` +
    `${describeKeys(route, keys)}${breakers}`
  const isSpent = keys.length > 1 && keys.every(({ resting }) => resting !== undefined)
  return (isSpent ? warning : ok)(place.index === 0 ? "model" : "fallback", text)
}

/**
 * Checks the sources of the address and the key, also for sub-agents. Reports a setting that belongs to another route.
 */
const checkSources = (
  settings: Values,
  { entries }: ConfiguredRoutes.Chain,
  child: RoutedModelRouter.ChainEntry | undefined
) => {
  const checkSource = (role: string, { source }: RoutedModelRouter.ChainEntry) =>
    source === undefined ? [] : [ok("source", `${role}: address from ${source.address}; key from ${source.key}`)]
  return [
    ...entries.flatMap((entry, index) =>
      entry.route.provider === "offline" ? [] : checkSource(index === 0 ? "model" : "fallback", entry)
    ),
    ...(child === undefined
      ? []
      : [
          ok("children", `${child.route.model} of ${child.route.provider} by ${child.route.apiMode}`),
          ...checkSource("children", child)
        ]),
    ...(settings.sources?.unused ?? []).map((text) => warning("source", text))
  ]
}

/** Describes the attempts and waits of a failed model call on each route. */
const describeRetries = ({ agent: { apiMaxRetries } }: Values): Effect.Effect<Finding> =>
  Effect.map(RetryPolicy.describePolicy(RetryPolicy.make({ attempts: apiMaxRetries })), (text) => ok("retries", text))

const checkChain = Effect.fnUntraced(function* (
  { entries, problems }: ConfiguredRoutes.Chain,
  { configured, open }: Pick<ConfiguredModels.Models, "configured" | "open">
) {
  const { root } = yield* Home
  const left = problems.map((text) => warning("fallback", text))
  const [first] = entries
  if (entries.length === 1 && first.route.provider === "offline") {
    const missing = ConfiguredRoutes.findMissingModel(configured)
    return [
      missing === undefined
        ? ok("model", "the built-in offline stand-in, which cannot answer open questions")
        : warning("model", missing.message),
      ...left
    ]
  }
  const { status } = yield* RoutedModelRouter.makeRouter({
    chain: entries,
    open,
    store: yield* PoolStore.openFile(root)
  })
  const states = yield* status.routes
  const found = entries.flatMap((entry, index) => {
    const state = states[index]
    return state === undefined ? [] : [describeRoute(entry, state, { index, count: entries.length })]
  })
  return [...found, yield* describeRetries(configured.settings), ...left]
}, Effect.scoped)

const login = Effect.gen(function* () {
  const { kept } = yield* Effect.promise(() => import("../../models/routing/Logins.ts"))
  const stored = yield* (yield* kept).stored
  if (stored === undefined) return []
  const left = stored.expiresAt - (yield* Clock.currentTimeMillis)
  const ends =
    left <= 0
      ? "has expired and is renewed at its next use"
      : `is valid for ${Duration.format(Duration.minutes(Math.ceil(left / 60_000)))} and is renewed before it expires`
  return [ok("login", `to ChatGPT; the token ${ends}`)]
})

const checkRoutes = Effect.fnUntraced(function* (settings: Values) {
  const found = yield* Effect.result(
    ConfiguredModels.use(settings, "look", ({ configured, open }) =>
      Effect.gen(function* () {
        const chain = yield* Effect.fromResult(ConfiguredRoutes.resolveChain(configured))
        const child = yield* Effect.fromResult(ConfiguredRoutes.resolveDelegated(configured))
        return [...(yield* checkChain(chain, { configured, open })), ...checkSources(settings, chain, child)]
      })
    )
  )
  const logins = yield* Effect.result(login)
  return [
    ...(Result.isSuccess(found) ? found.success : [problem("model", ErrorLine.fromError(found.failure).line)]),
    // The model check already reported the same error.
    ...(Result.isSuccess(logins)
      ? logins.success
      : Result.isFailure(found) && found.failure.path === logins.failure.path
        ? []
        : [warning("login", ErrorLine.fromError(logins.failure).line)])
  ]
})

/** Describes the program and the version of Node. An unsupported version of Node fails before this point. */
const describeProgram = (): Finding => ok("program", `hermes ${version} on Node ${nodeVersion}`)

const home = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const { root } = yield* Home
  const nearest = yield* findExistingDirectory(root)
  const writable = yield* Effect.isSuccess(fs.access(nearest, { writable: true }))
  if (!writable) return problem("home", `${nearest} is not writable: change its permissions, or set HERMES_HOME`)
  return ok("home", nearest === root ? root : `${root} (created by the first run)`)
})

/** Checks for secrets that can be read by other users, or by commands that tools run. */
const secrets = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const { env } = yield* Home
  const exposed = (yield* HiddenVariables).exposed()
  const variables =
    exposed.length === 0
      ? []
      : [
          warning(
            "secrets",
            `commands can read ${exposed.join(", ")} in the environment that hermes was started with: keep ` +
              `keys in ${env}`
          )
        ]
  const info = yield* Effect.option(fs.stat(env))
  if (Option.isNone(info)) return variables
  return (info.value.mode & 0o077) === 0
    ? [...variables, ok("secrets", env)]
    : [...variables, warning("secrets", `other users can read ${env}: run \`chmod 600 ${env}\``)]
})

/** Checks the tenants: their directories, routes, keys and prices, and the names of their tools. */
const checkTenants = Effect.fnUntraced(function* (values: Values) {
  if (Object.keys(values.tenants).length === 0) return []
  const checks = yield* Effect.promise(() => import("./TenantChecks.ts"))
  const routes = yield* Effect.result(
    ConfiguredModels.use(values, "look", ({ configured }) => checks.checkRoutes(configured))
  )
  const hasOthers = values.plugins.enabled.length > 0 || Object.keys(values.mcpServers).length > 0
  const found = [
    ...(yield* checks.checkWorkspaces(values, true)),
    // The check of the models reports what keeps routes from being read.
    ...(Result.isSuccess(routes) ? routes.success : []),
    ...checks.checkTools(values, checks.builtInTools, hasOthers ? " of the program" : "")
  ]
  return found.map(({ level, tenant, text }) => {
    const name = SafeText.toLine(formatTenant(tenant))
    return makeFinding(level)("tenant", `${name}: ${SafeText.toLine(text)}`)
  })
})

/** Checks the sandbox around commands. */
const checkSandbox = Effect.fnUntraced(function* (values: Values) {
  const { level, text } = yield* ConfiguredEnvironment.checkStatus(values, {
    environment: yield* Environment,
    home: yield* Home
  })
  return makeFinding(level)("sandbox", text)
})

const settings = Effect.gen(function* () {
  const { ignoreUserConfig } = yield* hermes
  const loaded = yield* Effect.result(load)
  if (Result.isFailure(loaded)) {
    return { values: undefined, findings: loaded.failure.message.split("\n").map((text) => problem("settings", text)) }
  }
  const { refusals, settings, warnings } = loaded.success
  const found = [
    ...[...refusals, ...(yield* Permissions.listProblems(settings.permissions))].map((text) =>
      problem("settings", text)
    ),
    ...warnings.map((text) => warning("settings", text))
  ]
  return {
    // If the settings are invalid, no run starts, so there is no model to check.
    values: refusals.length === 0 ? settings : undefined,
    findings: found.length === 0 ? [ok("settings", ignoreUserConfig ? "config.yaml is ignored" : "valid")] : found
  }
})

const findLatest = Effect.map(
  SessionStore.SessionStore.use((store) => store.list({ limit: 1 })),
  ([latest]) => (latest === undefined ? "none yet" : `the latest is ${latest.id}`)
)

/**
 * Opens the session store that the settings select. If it is a file that does not exist, opens a new store in a
 * temporary directory, so that SQLite is tested.
 */
const sessions = Effect.gen(function* () {
  const { layer, url } = yield* StoredSessions.findConfigured()
  if (url !== undefined)
    return ok("sessions", `in the database of store.url, ${yield* Effect.provide(findLatest, layer)}`)
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { database } = yield* Home
  const isThere = yield* Effect.orElseSucceed(fs.exists(database), () => false)
  const path = isThere
    ? database
    : paths.join(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-doctor-" }), "state.db")
  const latest = yield* Effect.provide(findLatest, SessionStore.layerSqlite({ path }))
  return ok("sessions", isThere ? `${database}, ${latest}` : latest)
}).pipe(
  Effect.scoped,
  Effect.catch((error) => Effect.succeed(problem("sessions", error.message)))
)

/** The command fails if it finds problems. */
export const command = Command.make(
  "doctor",
  {},
  Effect.fn("hermes doctor")(function* () {
    const { findings, values } = yield* settings
    const all = [
      describeProgram(),
      yield* home,
      ...findings,
      ...(yield* secrets),
      ...(values === undefined
        ? []
        : [...(yield* checkRoutes(values)), yield* checkSandbox(values), ...(yield* checkTenants(values))]),
      yield* sessions
    ]
    yield* printLine(all.map(renderFinding).join("\n"))
    const count = all.filter(({ level }) => level === "problem").length
    if (count > 0) {
      return yield* makeWorkFailure(count === 1 ? "1 problem was found" : `${count} problems were found`)
    }
  }, Effect.provide(surroundings))
)
