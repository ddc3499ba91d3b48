/**
 * Actions of `hermes config`.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import * as Yaml from "../config/Yaml.ts"
import * as ErrorLine from "./ErrorLine.ts"
import { notDone, silent, unknownName, unusable } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { line, note } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

/** Services that need no settings. */
const surroundings = Layer.provideMerge(Environment.layer, Home.layer)

interface AsJson {
  readonly json: boolean
}

/** A text as it is, so that a script can use it; everything else as YAML, or as JSON if that is asked for. */
const render = (value: unknown, { json }: AsJson): Effect.Effect<string> => {
  if (json) return Effect.succeed(SafeText.json(value, 2))
  return typeof value === "string" ? Effect.succeed(value) : Yaml.render(value)
}

const warn = (warnings: ReadonlyArray<string>) =>
  Effect.forEach(warnings, (warning) => note(`Warning: ${warning}`), { discard: true })

/** Prints the settings that are in effect; what has none is said on stderr. */
export const show = (flags: Flags.Globals, form: AsJson) =>
  Edit.show(Flags.configOptions(flags)).pipe(
    Effect.flatMap(({ values, warnings }) => Effect.andThen(warn(warnings), Effect.flatMap(render(values, form), line))),
    Effect.provide(surroundings)
  )

/** Prints where the file is. */
export const path = Effect.flatMap(Home, ({ config }) => line(config)).pipe(Effect.provide(Home.layer))

/** Prints where the file with the secrets is. */
export const envPath = Effect.flatMap(Home, ({ env }) => line(env)).pipe(Effect.provide(Home.layer))

const unknownKey = (key: string) => unknownName("setting", key, { list: "hermes config show" })

/** Prints one value; one that is not set is a failure. */
export const get = ({ json, key }: AsJson & { readonly key: string }) =>
  Effect.gen(function*() {
    const found = yield* Edit.get(key)
    if (Option.isNone(found)) return yield* (yield* Edit.isKnown(key)) ? notDone(`${key} is not set`) : unknownKey(key)
    yield* warn(yield* Edit.unsupported(key, found.value))
    yield* line(yield* render(found.value, { json }))
  }).pipe(Effect.provide(surroundings))

const tell = (what: string) => ({ file, key, warnings }: Edit.Change) =>
  Effect.andThen(warn(warnings), line(`${what} ${key} in ${file}`))

/** Sets one key. */
export const set = ({ key, value }: { readonly key: string; readonly value: string }) =>
  Effect.flatMap(Edit.set(key, value), tell("set")).pipe(Effect.provide(Home.layer))

/** Removes one key. */
export const unset = ({ key }: { readonly key: string }) =>
  Effect.gen(function*() {
    const change = yield* Edit.unset(key)
    if (change.wasSet) return yield* tell("removed")(change)
    return yield* (yield* Edit.isKnown(key)) ? line(`${change.key} is not set in ${change.file}`) : unknownKey(key)
  }).pipe(Effect.provide(Home.layer))

/** Says everything that is wrong, a line each. */
export const check = (flags: Flags.Globals) =>
  judge(Flags.configOptions(flags)).pipe(Effect.provide(surroundings))

/** Lets the user's editor change the file, and says what is wrong with it then. */
export const edit = Effect.gen(function*() {
  const home = yield* Home
  const environment = yield* Environment
  yield* home.ensure
  const editor = environment.get("VISUAL") ?? environment.get("EDITOR") ?? "vi"
  // The variable may hold arguments, so the shell reads it; the path is no part of what it reads.
  const command = ChildProcess.make("sh", ["-c", `${editor} "$1"`, "sh", home.config], {
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit"
  })
  const code = yield* ChildProcessSpawner.use(({ exitCode }) => exitCode(command)).pipe(
    Effect.mapError((error) => notDone(`cannot start the editor: ${error.message}`))
  )
  if (code !== 0) return yield* notDone(`the editor "${editor}" ended with ${code}: set EDITOR`)
  return yield* judge({})
}).pipe(Effect.provide(surroundings))

const refuse = (lines: ReadonlyArray<string>) =>
  Effect.andThen(
    Effect.forEach(lines, (text) => note(ErrorLine.render(text).trimEnd()), { discard: true }),
    Effect.fail(silent(unusable))
  )

const judge = (options: Config.Options) =>
  Config.load(options).pipe(
    Effect.matchEffect({
      onFailure: (error) => refuse(error.message.split("\n")),
      onSuccess: ({ refusals, warnings }) =>
        Effect.andThen(
          warn(warnings),
          refusals.length > 0
            ? refuse(refusals)
            : line(warnings.length === 0 ? "The settings are valid" : "The settings can be used, with warnings")
        )
    })
  )
