/**
 * Action of `hermes doctor`: looks at everything that a run needs, changes nothing, and shows no secret.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Config from "../config/Config.ts"
import { Environment, HiddenVariables } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { SessionStore } from "../session/SessionStore.ts"
import * as SqliteSessionStore from "../session/SqliteSessionStore.ts"
import { type Finding, ok, problem, render, routes, warning } from "./DoctorRoutes.ts"
import { notDone } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { nodeVersion } from "./internal/machine.ts"
import { line } from "./ProgramOutput.ts"
import { version } from "./Version.ts"

/** A Node that is too old never comes this far. */
const node = (): Finding => ok("program", `hermes ${version} on Node ${nodeVersion()}`)

/** The directory itself, or the nearest one above it that is there. */
const existing = (path: string): Effect.Effect<string, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const parent = paths.dirname(path)
    const isThere = yield* Effect.orElseSucceed(fs.exists(path), () => false)
    return isThere || parent === path ? path : yield* existing(parent)
  })

const home = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const { root } = yield* Home
  const nearest = yield* existing(root)
  const writable = yield* Effect.isSuccess(fs.access(nearest, { writable: true }))
  if (!writable) return problem("home", `${nearest} is not writable: change its permissions, or set HERMES_HOME`)
  return ok("home", nearest === root ? root : `${root} (created by the first run)`)
})

/** Secrets that others can read, or commands of tools. */
const secrets = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const { env } = yield* Home
  const exposed = (yield* HiddenVariables).exposed()
  const variables = exposed.length === 0
    ? []
    : [warning("secrets", `commands can read ${exposed.join(", ")} in the environment that hermes was started with: keep keys in ${env}`)]
  const info = yield* Effect.option(fs.stat(env))
  if (Option.isNone(info)) return variables
  return (info.value.mode & 0o077) === 0
    ? [...variables, ok("secrets", env)]
    : [...variables, warning("secrets", `others can read ${env}: run \`chmod 600 ${env}\``)]
})

const settings = Effect.fnUntraced(function*(flags: Flags.Globals) {
  const loaded = yield* Effect.result(Config.load(Flags.configOptions(flags)))
  if (Result.isFailure(loaded)) {
    return { values: undefined, findings: loaded.failure.message.split("\n").map((text) => problem("settings", text)) }
  }
  const { refusals, settings, warnings } = loaded.success
  const found = [...refusals.map((text) => problem("settings", text)), ...warnings.map((text) => warning("settings", text))]
  return {
    // With settings that no run starts with there is no model to look at.
    values: refusals.length === 0 ? settings : undefined,
    findings: found.length === 0
      ? [ok("settings", flags.ignoreUserConfig ? "config.yaml is ignored" : "valid")]
      : found
  }
})

/** Opens the sessions, or those of a directory that goes away, so that SQLite is tried in every case. */
const sessions = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { database } = yield* Home
  const isThere = yield* Effect.orElseSucceed(fs.exists(database), () => false)
  const path = isThere ? database : paths.join(yield* fs.makeTempDirectoryScoped({ prefix: "hermes-doctor-" }), "state.db")
  const [latest] = yield* Effect.provide(
    SessionStore.use((store) => store.list({ limit: 1 })),
    SqliteSessionStore.layer({ path })
  )
  return ok("sessions", isThere ? `${database}${latest === undefined ? ", none yet" : `, the latest is ${latest.id}`}` : "none yet")
}).pipe(
  Effect.scoped,
  Effect.catch((error) => Effect.succeed(problem("sessions", error.message)))
)

/** With problems it fails. */
export const doctor = Effect.fn("hermes doctor")(function*(flags: Flags.Globals) {
  const { findings, values } = yield* settings(flags)
  const all = [
    node(),
    yield* home,
    ...findings,
    ...yield* secrets,
    ...values === undefined ? [] : yield* routes(values),
    yield* sessions
  ]
  yield* line(all.map(render).join("\n"))
  const count = all.filter(({ level }) => level === "problem").length
  if (count > 0) {
    return yield* notDone(count === 1 ? "1 problem was found" : `${count} problems were found`)
  }
}, Effect.provide(Layer.provideMerge(Environment.layer, Home.layer)))
