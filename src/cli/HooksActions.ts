/**
 * Actions of `hermes hooks`.
 *
 * Source: `hermes-contract.md` §3.7.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import * as Config from "../config/Config.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { nearest } from "../domain/Similarity.ts"
import * as Json from "../domain/Json.ts"
import * as JsonSchemas from "../hooks/JsonSchemas.ts"
import { isHookName, names } from "../hooks/Payloads.ts"
import type { Ran } from "../hooks/ShellHookProcess.ts"
import * as ShellHooks from "../hooks/ShellHooks.ts"
import { failed, type Failure, silent, unknownName, unwritable, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { workingDirectory } from "./internal/machine.ts"
import { line, note } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const surroundings = Layer.provideMerge(Environment.layer, Home.layer)

interface AsJson {
  readonly json: boolean
}

/** The hooks of the configuration. Nobody is asked: what may run is only shown. */
const configured = Effect.fnUntraced(function*(flags: Flags.Globals) {
  const home = yield* Home
  const environment = yield* Environment
  const { settings } = yield* Config.load(Flags.configOptions(flags))
  const service = yield* ShellHooks.make({
    block: settings.hooks,
    home: home.root,
    accept: false,
    cwd: workingDirectory(),
    environment: environment.process
  })
  for (const warning of service.warnings) yield* note(`Warning: ${SafeText.line(warning)}`)
  return service
})

const none = "No shell hooks. Add them below `hooks` in config.yaml."

const facts = ({ consent, hook }: ShellHooks.Listed) => ({
  event: hook.event,
  command: hook.command,
  matcher: hook.matcher ?? null,
  timeout: hook.timeoutSeconds,
  consent
})

const describe = ({ consent, hook }: ShellHooks.Listed): string =>
  SafeText.line(
    `${hook.event}  ${hook.command}${hook.matcher === undefined ? "" : ` (only ${hook.matcher})`}  ${hook.timeoutSeconds}s  ${consent}`
  )

/** Prints the hooks of the configuration. */
export const list = Effect.fn("hermes hooks list")(function*(flags: Flags.Globals, { json }: AsJson) {
  const hooks = yield* (yield* configured(flags)).list
  if (json) return yield* line(SafeText.json(hooks.map(facts), 2))
  yield* line(hooks.length === 0 ? none : hooks.map(describe).join("\n"))
}, Effect.provide(surroundings))

const payloadOf = Effect.fnUntraced(function*(path: string | undefined) {
  if (path === undefined) return {}
  const fs = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(fs.readFileString(path), ({ message }) => usage(`cannot read --payload-file ${path}: ${message}`))
  const payload = Option.getOrUndefined(Json.parse(text))
  return Predicate.isObject(payload) && !Array.isArray(payload)
    ? payload
    : yield* usage(`--payload-file ${path} is not a JSON object`)
})

const outcome = (ran: Ran): string => {
  switch (ran._tag) {
    case "NotStarted":
      return `did not start: ${ran.message}`
    case "TimedOut":
      return `timed out after ${ran.seconds} s`
    case "Exited":
      return `exited with ${ran.exitCode ?? "a signal"} after ${ran.millis} ms`
  }
}

const tried = ({ consent, matches, ran, said }: ShellHooks.Tried): string => {
  if (!matches) return "skipped: its matcher does not match this event"
  if (ran === undefined) return `not run: consent is "${consent}". Approve it in a terminal, or with --accept-hooks.`
  return `${outcome(ran)}; it says ${said === undefined ? "nothing" : JSON.stringify(said)}`
}

/** Runs the hooks of an event on a made-up one. */
export const test = Effect.fn("hermes hooks test")(function*(
  flags: Flags.Globals,
  { event, payload, tool }: { readonly event: string; readonly payload: string | undefined; readonly tool: string | undefined }
) {
  const service = yield* configured(flags)
  const results = yield* service.test(event, { tool, payload: yield* payloadOf(payload) })
  if (results.length === 0) return yield* line(`No shell hook for ${event}`)
  yield* line(results.map((result) => `${describe(result)}\n  ${SafeText.line(tried(result))}`).join("\n"))
}, Effect.provide(surroundings))

/** Forgets that a command was approved. */
export const revoke = Effect.fn("hermes hooks revoke")(function*(flags: Flags.Globals, { command }: { readonly command: string }) {
  const service = yield* configured(flags)
  const count = yield* service.revoke(command)
  if (count === 0) return yield* unknownName("approved hook", command, { list: "hermes hooks list" })
  yield* line(`revoked ${command}; it will not run until approved again`)
}, Effect.provide(surroundings))

/** Tries every hook; exit code 1 when something is wrong. */
export const doctor = Effect.fn("hermes hooks doctor")(function*(flags: Flags.Globals, { json }: AsJson) {
  const found = yield* (yield* configured(flags)).doctor
  const isFine = found.every(({ problems }) => problems.length === 0)
  if (json) {
    yield* line(SafeText.json(found.map((one) => ({ ...facts(one), problems: one.problems, millis: one.millis ?? null })), 2))
  } else {
    yield* line(
      found.length === 0
        ? none
        : found.map((one) =>
          [`${one.problems.length === 0 ? "ok" : "problem"}  ${describe(one)}`, ...one.problems.map((text) => `  ${SafeText.line(text)}`)].join("\n")
        ).join("\n")
    )
  }
  if (!isFine) return yield* silent(failed)
}, Effect.provide(surroundings))

const unknownEvent = (event: string): Failure => {
  const meant = nearest(event, names)
  return usage(`no hook "${event}": ${meant === undefined ? `one of ${names.join(", ")}` : `did you mean ${meant}?`}`)
}

/** Prints or writes the JSON Schema of what events carry. */
export const schema = Effect.fn("hermes hooks schema")(function*(
  { event, output }: { readonly event: Option.Option<string>; readonly output: string | undefined }
) {
  const name = Option.getOrUndefined(event)
  if (name !== undefined && !isHookName(name)) return yield* unknownEvent(name)
  const documents = name === undefined ? JsonSchemas.documents() : [{ name, schema: JsonSchemas.document(name) }]
  if (output === undefined) {
    const printed = name === undefined ? Object.fromEntries(documents.map(({ name, schema }) => [name, schema])) : documents[0]?.schema
    return yield* line(SafeText.json(printed, 2))
  }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* Effect.gen(function*() {
    yield* fs.makeDirectory(output, { recursive: true })
    for (const { name, schema } of documents) {
      yield* fs.writeFileString(paths.join(output, `${name}.schema.json`), `${JSON.stringify(schema, null, 2)}\n`)
    }
  }).pipe(Effect.mapError(unwritable(`--output ${output}`)))
  yield* line(`wrote ${documents.length} schemas to ${output}`)
})
