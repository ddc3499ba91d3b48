/**
 * Errors with line numbers, and expansion of references, for configuration files. The references are `${env:NAME}` and
 * `${env.NAME}`, `${this_file_dir}`, `${variables.a.b}`.
 *
 * **Details**
 *
 * References are replaced in parsed values, so that a value cannot change the structure of the file and a reference in
 * a comment is not an error. A string that consists only of a reference to `variables` takes the type of the referenced
 * value (a number, a list). Every other reference becomes text. `$${` is a literal `${`, and other `${…}` remain
 * unchanged. If the file has no section `variables`, references to variables remain unchanged too.
 *
 * Source: `nexau.md` §6.2.
 */
import * as Effect from "effect/Effect"
import { ConfigError } from "../domain/AgentError.ts"
import * as Tree from "./internal/Tree.ts"
import * as Yaml from "./Yaml.ts"

/** A configuration file. */
export interface ConfigFile {
  /** Name of the file in errors: `config.yaml`, or a path. */
  readonly name: string
  /** Absolute directory of the file. */
  readonly folder: string
  /** Text of the file, for line numbers in errors; read only if there is an error. */
  readonly text: Effect.Effect<string>
}

/** A place in a file, as a path of mapping keys and list positions. */
export type Path = Tree.Path

/** Creates the error for a place in a file: `agent.yaml: line 12: middlewares[0].import: …`. */
export const makeError = (file: ConfigFile, path: Path, message: string): Effect.Effect<ConfigError> =>
  Effect.gen(function* () {
    const text = yield* file.text
    const line = text === "" || path.length === 0 ? "" : `line ${(yield* Yaml.load).findLine(text, path)}: `
    const place = path.length === 0 ? "" : `${Tree.formatPath(path)}: `
    return new ConfigError({ path: Tree.formatPath(path), message: `${file.name}: ${line}${place}${message}` })
  })

/** Sources of the values that replace references. */
export interface ReferenceSources {
  /**
   * Returns the value of an environment variable. Without this function, references to the environment remain
   * unchanged.
   */
  readonly variable?: ((name: string) => string | undefined) | undefined
  /** Directory of the file, which replaces `${this_file_dir}`. */
  readonly folder: string
  /** Value of the section `variables` in the file. */
  readonly variables?: unknown
}

/** A reference that has no value. */
export interface MissingReference {
  readonly path: Path
  /** The mistake and its remedy. */
  readonly message: string
}

const reference = /\$?\$\{(?:env[:.]([A-Za-z_]\w*)|(this_file_dir)|variables\.([\w.-]+))\}/g

const isScalar = (value: unknown): value is string | number | boolean =>
  ["string", "number", "boolean"].includes(typeof value)

const readVariable = (variables: unknown, names: string): unknown =>
  names
    .split(".")
    .reduce<unknown>(
      (value, name) =>
        typeof value === "object" && value !== null && Object.hasOwn(value, name)
          ? Reflect.get(value, name)
          : undefined,
      variables
    )

/** Replaces the references in a tree. Returns the new tree and the references that have no value. */
export const expand = (
  tree: unknown,
  { folder, variable, variables }: ReferenceSources
): { readonly tree: unknown; readonly missing: ReadonlyArray<MissingReference> } => {
  const missing: Array<MissingReference> = []

  const expandText = (value: string, path: Path): unknown => {
    const [only] = value.matchAll(reference)
    const whole = only?.[0] === value && only[3] !== undefined && !value.startsWith("$$") ? only[3] : undefined
    if (whole !== undefined && variables !== undefined) {
      const found = readVariable(variables, whole)
      if (found !== undefined && found !== null) return found
    }
    return value.replaceAll(
      reference,
      (match, name: string | undefined, isFolder: string | undefined, names: string | undefined) => {
        if (match.startsWith("$$")) return match.slice(1)
        if (isFolder !== undefined) return folder
        if (name !== undefined) {
          if (variable === undefined) return match
          const found = variable(name)
          if (found === undefined)
            missing.push({ path, message: `${match} is not set: set ${name} in the environment or in .env` })
          return found ?? match
        }
        if (variables === undefined || names === undefined) return match
        const found = readVariable(variables, names)
        if (isScalar(found)) return String(found)
        missing.push({
          path,
          message: `${match}: variables has no value ${names}${found === undefined ? "" : " that fits into a text"}`
        })
        return match
      }
    )
  }

  const expandValue = (value: unknown, path: Path): unknown => {
    if (typeof value === "string") return value.includes("${") ? expandText(value, path) : value
    if (Array.isArray(value)) return value.map((item, index) => expandValue(item, [...path, index]))
    if (typeof value !== "object" || value === null) return value
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, expandValue(item, [...path, key])]))
  }

  return { tree: expandValue(tree, []), missing }
}
