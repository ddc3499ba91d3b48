/**
 * Building blocks of the settings: sections, and kinds of values. The keys of a section are camelCase in TypeScript and
 * snake_case in the file. Each kind contains a description of the expected value for errors.
 */
import * as Effect from "effect/Effect"
import * as RedactedValue from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import { marker } from "../domain/Redaction.ts"

/** Rules for a kind of value in addition to its type. `internal/Tree` applies them. */
export interface FieldRules {
  /** Minimum (`least`) and maximum (`most`). A number out of range is replaced by the nearer bound, with a warning. */
  readonly least?: number
  readonly most?: number
  /** Accepts words such as `"yes"` as booleans, not only in environment variables but also in the file. */
  readonly words?: boolean
  /** Leaves `${…}` in the text unexpanded, because another program expands it. */
  readonly verbatim?: boolean
  readonly secret?: boolean
  /** Converts a number or a boolean to text, for arguments and variables of programs. */
  readonly scalars?: boolean
  /** Accepts undeclared keys, which are meant for other programs. A warning is shown only for a likely misspelling. */
  readonly open?: boolean
  /** Separator of the items if the list is written as one string; defaults to a comma. */
  readonly separator?: string
  readonly unsupported?: Unsupported
  /** Names of map entries that are not implemented yet. */
  readonly unsupportedNames?: ReadonlyArray<string>
}

/** Describes an accepted key that is not implemented yet, for the warning to the user. */
export interface Unsupported {
  /**
   * Values, as written in the file, that match the actual behavior and therefore cause no warning; `"any"` if no value
   * of the key causes one.
   */
  readonly holds: ReadonlyArray<unknown> | "any"
  /** Remedy for the user; defaults to `remove it`. */
  readonly remedy?: string
  /** True if safety depends on the key. No run starts while the key has a value that is not listed in `holds`. */
  readonly stops?: boolean
}

/** Key of the annotation that contains the {@link FieldRules}. */
export const factsKey = "hermes-effect/config/facts"

const toAnnotation = (facts: FieldRules) => ({ [factsKey]: facts })

/**
 * Marks a key that is accepted but not read yet. Remove the mark when the key is implemented. A test fails for a key
 * that is neither read nor marked.
 */
export const markUnsupported = <S extends Schema.Top>(
  schema: S,
  unsupported: Unsupported = { holds: [] }
): S["Rebuild"] =>
  schema.annotate(toAnnotation({ ...SchemaAST.resolveAt<FieldRules>(factsKey)(schema.ast), unsupported }))

/** Converts a name from camelCase to snake_case: `maxTurns` to `max_turns`. */
export const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns the keys of fields as written in the file. */
export const toFileKeys = <const F extends Schema.Struct.Fields>(fields: F) => {
  const keys = Object.fromEntries(Object.keys(fields).map((name) => [name, toSnakeCase(name)]))
  // The record is built from all fields, so every field has an entry.
  return keys as { readonly [K in keyof F]: string }
}

/** Creates the Schema of a mapping with these keys. */
export const section = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields).pipe(Schema.encodeKeys(toFileKeys(fields)))

/** Creates a {@link section} that accepts keys of other programs and later versions. */
export const openSection = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields)
    .annotate(toAnnotation({ open: true }))
    .pipe(Schema.encodeKeys(toFileKeys(fields)))

/** Makes a key optional, with a default value as it would be written in the file. */
export const withDefault = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]) =>
  Schema.withDecodingDefaultKey<S>(Effect.succeed(value))(schema)

/**
 * Returns an entry as a mapping. A string becomes a mapping with one key `name`: for the name `import`, `logging`
 * becomes `{ import: logging }`.
 */
export const toFullEntry = (entry: unknown, name: string): unknown =>
  typeof entry === "string" ? { [name]: entry } : entry

/** Creates a {@link section} for list entries that may also be written as a string; see {@link toFullEntry}. */
export const entry = <const F extends Schema.Struct.Fields>(name: string, fields: F) => {
  const schema = section(fields)
  return Schema.Unknown.pipe(
    Schema.decodeTo(schema, {
      // The Schema of the section rejects values that are not mappings.
      decode: SchemaGetter.transform((given: unknown) => toFullEntry(given, name) as (typeof schema)["Encoded"]),
      encode: SchemaGetter.transform((encoded): unknown => encoded)
    })
  )
}

/** Creates an optional section. An absent section has its defaults. */
export const optionalSection = <const F extends Schema.Struct.Fields>(fields: F) => {
  const schema = section(fields)
  // Each field is optional in the file, so an empty mapping is valid; the compiler cannot infer this for a generic `F`.
  return withDefault(schema, {} as (typeof schema)["Encoded"])
}

/** Makes a key optional, without a default. */
export const optional = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(schema)

/** Creates the Schema of a mapping whose keys the user chooses. */
export const record = <S extends Schema.Constraint>(item: S) => Schema.Record(Schema.String, item)

/** Creates a {@link record}. `unsupportedNames` are accepted although their entries are not implemented yet. */
export const recordWithout = <S extends Schema.Constraint>(item: S, unsupportedNames: ReadonlyArray<string>) =>
  record(item).annotate(toAnnotation({ unsupportedNames }))

/** Schema of any string. */
export const text = Schema.String.annotate({ expected: "a string" })

/** A shell command. `${…}` is not expanded, because the shell expands it. */
export const command = Schema.String.annotate({ expected: "a string", ...toAnnotation({ verbatim: true }) })

/** An argument of a program; `3000` and `true` are read as strings. */
export const argument = Schema.String.annotate({ expected: "a string", ...toAnnotation({ scalars: true }) })

/** A list of strings, separated by commas in an environment variable. */
export const texts = Schema.Array(text)

/** A list of directories, separated as in `PATH` in an environment variable. */
export const paths = Schema.Array(text).annotate(toAnnotation({ separator: ":" }))

/** `true` or `false`. */
export const flag = Schema.Boolean.annotate({ expected: "true or false" })

/** `true` or `false`, or a quoted word such as `"yes"`, which the configuration format accepts for a few keys. */
export const wordyFlag = Schema.Boolean.annotate({ expected: "true or false", ...toAnnotation({ words: true }) })

/** Creates the Schema of one of several words. */
export const choice = <const W extends ReadonlyArray<string>>(words: W) => Schema.Literals(words)

/** 0, 1, 2, … */
export const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "a whole number, 0 or more" }))

/** 1, 2, 3, … */
export const positive = Schema.Int.check(Schema.isGreaterThan(0, { expected: "a positive integer" }))

/**
 * Creates the Schema of an integer. A number out of range is replaced with the nearer bound instead of being rejected.
 */
export const integer = (bounds: { readonly least?: number; readonly most?: number }) =>
  Schema.Int.annotate({ expected: "an integer", ...toAnnotation(bounds) })

/** A duration in seconds, greater than 0. */
export const seconds = Schema.Finite.check(Schema.isGreaterThan(0, { expected: "a positive number of seconds" }))

/**
 * Creates the Schema of a number. A number out of range is replaced with the nearer bound instead of being rejected.
 */
export const number = (bounds: { readonly least?: number; readonly most?: number }) =>
  Schema.Finite.annotate({ expected: "a number", ...toAnnotation(bounds) })

/** A number greater than 0 and at most 1. */
export const ratio = Schema.Finite.check(
  Schema.isBetween({ minimum: 0, maximum: 1, exclusiveMinimum: true }, { expected: "a number above 0 and up to 1" })
)

const makeSecret = (more: FieldRules) =>
  Schema.String.pipe(
    Schema.decodeTo(
      Schema.Redacted(Schema.String).annotate({ expected: "a string", ...toAnnotation({ ...more, secret: true }) }),
      {
        decode: SchemaGetter.transform((value: string) => RedactedValue.make(value)),
        encode: SchemaGetter.transform(() => marker)
      }
    )
  )

/**
 * A secret, decoded as `Redacted`. Encoding replaces the secret with a mask, so encoded settings may be shown but must
 * not be saved.
 */
export const secret = makeSecret({})

/** A list of secrets, separated by commas in an environment variable. */
export const secrets = Schema.Array(secret)

/** A variable or header for a program, treated as a secret. */
export const variable = makeSecret({ scalars: true })

/** Any value; the code that reads it checks it. */
export const anything = Schema.Unknown
