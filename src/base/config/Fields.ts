/**
 * Building blocks of the settings: sections whose keys are camelCase in TypeScript and snake_case in the file, and the
 * kinds of values in them. Each kind describes what it expects, so that an error needs no other source.
 */
import * as Effect from "effect/Effect"
import * as RedactedValue from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import { marker } from "../domain/Redaction.ts"

/** Rules of a kind besides its type; read by `Shape`. */
export interface FieldRules {
  /** Minimum and maximum; a number outside is replaced by the nearer bound with a warning. */
  readonly least?: number
  readonly most?: number
  /** Words such as `"yes"` count as booleans in the file too. */
  readonly words?: boolean
  /** `${…}` in the text is not ours. */
  readonly verbatim?: boolean
  readonly secret?: boolean
  /** A number or a boolean is taken for its text: arguments and variables of programs. */
  readonly scalars?: boolean
  /** Undeclared keys belong to other programs; only near misses draw a warning. */
  readonly open?: boolean
  /** Separator of the items where the list is one text; a comma when absent. */
  readonly separator?: string
  readonly unsupported?: Unsupported
  /** Names in a map whose entries nothing reads yet. */
  readonly unsupportedNames?: ReadonlyArray<string>
}

/** An accepted key that is not implemented yet, with the message to its user. */
export interface Unsupported {
  /**
   * Values, in the words of the file, that describe what happens anyway: they draw no warning. `"any"` for a key that
   * asks for nothing.
   */
  readonly holds: ReadonlyArray<unknown> | "any"
  /** Remedy for the user; `remove it` when absent. */
  readonly remedy?: string
  /** Safety depends on the key: no run starts with a value that does not hold. */
  readonly stops?: boolean
}

/** The annotation that carries {@link FieldRules}. */
export const factsKey = "hermes-effect/config/facts"

const toAnnotation = (facts: FieldRules) => ({ [factsKey]: facts })

/**
 * Marks a key that nothing reads yet. The change that implements the key removes the mark; a test fails for a key that
 * has neither a reader nor this mark.
 */
export const markUnsupported = <S extends Schema.Top>(
  schema: S,
  unsupported: Unsupported = { holds: [] }
): S["Rebuild"] =>
  schema.annotate(toAnnotation({ ...SchemaAST.resolveAt<FieldRules>(factsKey)(schema.ast), unsupported }))

/** `maxTurns` as `max_turns`. */
export const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Returns the keys of fields as written in the file. */
export const toFileKeys = <const F extends Schema.Struct.Fields>(fields: F) => {
  const keys = Object.fromEntries(Object.keys(fields).map((name) => [name, toSnakeCase(name)]))
  // Every field has an entry: the record is made from them.
  return keys as { readonly [K in keyof F]: string }
}

/** A mapping with these keys. */
export const section = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields).pipe(Schema.encodeKeys(toFileKeys(fields)))

/** A {@link section} that may have keys of other programs and later versions. */
export const openSection = <const F extends Schema.Struct.Fields>(fields: F) =>
  Schema.Struct(fields)
    .annotate(toAnnotation({ open: true }))
    .pipe(Schema.encodeKeys(toFileKeys(fields)))

/** A key that may be absent, and then has this value, in the words of the file. */
export const withDefault = <S extends Schema.Constraint>(schema: S, value: S["Encoded"]) =>
  Schema.withDecodingDefaultKey<S>(Effect.succeed(value))(schema)

/** Returns an entry as a mapping: a text sets only the key `name`, as `logging` for `{ import: logging }`. */
export const toFullEntry = (entry: unknown, name: string): unknown =>
  typeof entry === "string" ? { [name]: entry } : entry

/** A {@link section} of a list that may be written as a text; see {@link toFullEntry}. */
export const entry = <const F extends Schema.Struct.Fields>(name: string, fields: F) => {
  const schema = section(fields)
  return Schema.Unknown.pipe(
    Schema.decodeTo(schema, {
      // Whatever is no mapping then is for the Schema of the section to refuse.
      decode: SchemaGetter.transform((given: unknown) => toFullEntry(given, name) as (typeof schema)["Encoded"]),
      encode: SchemaGetter.transform((encoded): unknown => encoded)
    })
  )
}

/** A section that may be absent, and then has its defaults. */
export const optionalSection = <const F extends Schema.Struct.Fields>(fields: F) => {
  const schema = section(fields)
  // Each field is optional in the file, so that an empty mapping fits; the compiler cannot see that for a generic F.
  return withDefault(schema, {} as (typeof schema)["Encoded"])
}

/** A key that may be absent and has no default. */
export const optional = <S extends Schema.Constraint>(schema: S) => Schema.optionalKey(schema)

/** A mapping whose keys the user chooses. */
export const record = <S extends Schema.Constraint>(item: S) => Schema.Record(Schema.String, item)

/** A {@link record} in which the entries of some names are accepted although nothing reads them yet. */
export const recordWithout = <S extends Schema.Constraint>(item: S, unsupportedNames: ReadonlyArray<string>) =>
  record(item).annotate(toAnnotation({ unsupportedNames }))

/** Any text. */
export const text = Schema.String.annotate({ expected: "a string" })

/** A shell command: its `${…}` belong to the shell. */
export const command = Schema.String.annotate({ expected: "a string", ...toAnnotation({ verbatim: true }) })

/** An argument of a program; `3000` and `true` are texts here. */
export const argument = Schema.String.annotate({ expected: "a string", ...toAnnotation({ scalars: true }) })

/** Texts; in an environment variable they are separated by commas. */
export const texts = Schema.Array(text)

/** Directories; in an environment variable they are separated as in `PATH`. */
export const paths = Schema.Array(text).annotate(toAnnotation({ separator: ":" }))

/** `true` or `false`. */
export const flag = Schema.Boolean.annotate({ expected: "true or false" })

/** `true` or `false`, and the words for them in quotes: the contract takes those for a few keys. */
export const wordyFlag = Schema.Boolean.annotate({ expected: "true or false", ...toAnnotation({ words: true }) })

/** One of a few words. */
export const choice = <const W extends ReadonlyArray<string>>(words: W) => Schema.Literals(words)

/** 0, 1, 2, … */
export const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "a whole number, 0 or more" }))

/** 1, 2, 3, … */
export const positive = Schema.Int.check(Schema.isGreaterThan(0, { expected: "a positive integer" }))

/** A whole number that is brought into bounds instead of being refused. */
export const integer = (bounds: { readonly least?: number; readonly most?: number }) =>
  Schema.Int.annotate({ expected: "an integer", ...toAnnotation(bounds) })

/** A length of time in seconds, more than none. */
export const seconds = Schema.Finite.check(Schema.isGreaterThan(0, { expected: "a positive number of seconds" }))

/** A number, such as seconds or a ratio, that is brought into bounds instead of being refused. */
export const number = (bounds: { readonly least?: number; readonly most?: number }) =>
  Schema.Finite.annotate({ expected: "a number", ...toAnnotation(bounds) })

/** More than 0 and at most 1. */
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
 * A secret. It is `Redacted` from here on; encoding shows that there is one, not which, so the encoded form of settings
 * is for showing and never for saving.
 */
export const secret = makeSecret({})

/** Secrets; in an environment variable they are separated by commas. */
export const secrets = Schema.Array(secret)

/** A variable or header of a program, which may well be a secret. */
export const variable = makeSecret({ scalars: true })

/** Anything, for the code that reads it to judge. */
export const anything = Schema.Unknown
