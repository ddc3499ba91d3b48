// The published JSON Schema of config.yaml and the loader take the same: for every text of the documentation and of the
// tests, and for every value of a table at every place.
import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import * as SettingsShape from "../../../src/base/config/internal/SettingsShape.ts"
import * as Tree from "../../../src/base/config/internal/Tree.ts"
import * as Yaml from "../../../src/base/config/Yaml.ts"
import { configSamples } from "../../support/configSamples.ts"
import { jsonSchemas } from "../../support/jsonSchemas.ts"

const validate = new Ajv2020({ strict: false }).compile(jsonSchemas()["config.json"] ?? {})

/** True where the loader neither refuses a file nor warns of a key that it does not know. */
const isLoaded = (file: unknown, variables: Readonly<Record<string, string>> = {}): Effect.Effect<boolean> =>
  Config.resolve({ file, environment: Environment.make(variables), flags: [] }).pipe(
    Effect.match({
      onFailure: () => false,
      onSuccess: ({ warnings }) => !warnings.some((line) => line.includes("unknown key"))
    })
  )

/** A place of the file, and the file that has a value there alone. */
type Place = readonly [path: string, put: (value: unknown) => unknown]

const placesOf = (shape: Tree.Shape, path: string, put: Place[1]): ReadonlyArray<Place> => {
  const fields = shape._tag === "Section" ? shape.fields : shape._tag === "Value" ? shape.section?.fields : undefined
  const inside = Array.from(fields ?? []).flatMap(([key, field]) =>
    placesOf(field, `${path}.${key}`, (value) => put({ [key]: value }))
  )
  const item =
    shape._tag === "MapOf"
      ? placesOf(shape.item, `${path}.*`, (value) => put({ x: value }))
      : shape._tag === "ListOf"
        ? placesOf(shape.item, `${path}[]`, (value) => put([value]))
        : []
  return [[path, put], ...inside, ...item]
}

const root = SettingsShape.getRootShape()
/** All places but the keys of providers, whose name is any. */
const places = Array.from(root._tag === "Section" ? root.fields : [])
  .filter(([key]) => !key.startsWith("<"))
  .flatMap(([key, shape]) => placesOf(shape, key, (value) => ({ [key]: value })))

const values: ReadonlyArray<unknown> = [
  "text",
  "",
  "yes",
  "5",
  5,
  0,
  -1,
  1e9,
  true,
  null,
  [],
  ["a"],
  [true],
  [null],
  {},
  { a: "b" }
]

/** Places of which the loader knows more than a type: a colour, a command, an import that is not empty. */
const known =
  /^(?:display\.themes\.\*\.\w+|hooks\.\*\[\]\.command|middlewares(?:\[\].*)?|mcp_servers\.\*\.sandbox\.policy)$/u

describe("the schema of config.yaml and the loader", () => {
  it.effect("say the same of every text of the documentation and of the tests", () =>
    Effect.gen(function* () {
      const samples = configSamples()
      const differing: Array<string> = []
      let taken = 0
      for (const [yaml, path] of samples) {
        const file = yield* Effect.orElseSucceed(Yaml.read(yaml, path), () => undefined)
        if (file === undefined) continue
        const variables = Object.fromEntries(Array.from(yaml.matchAll(/\$\{(\w+)\}/g), ([, name = ""]) => [name, "5"]))
        const isTaken = yield* isLoaded(file, variables)
        if (isTaken) taken++
        if (validate(JSON.parse(JSON.stringify(file)) as unknown) !== isTaken) differing.push(`${path}: ${yaml}`)
      }
      assert.deepStrictEqual(differing, [])
      assert.isAbove(taken, 100)
      assert.isAbove(samples.size - taken, 20)
    })
  )

  it.effect("the schema takes at every place what the loader takes, and no type that it refuses", () =>
    Effect.gen(function* () {
      const stricter: Array<string> = []
      const looser = new Set<string>()
      for (const [path, put] of places) {
        for (const value of values) {
          const file = put(value)
          const isValid = validate(file)
          if (isValid === (yield* isLoaded(file))) continue
          if (isValid) looser.add(path)
          else stricter.push(`${path}: ${JSON.stringify(value)}`)
        }
      }
      assert.deepStrictEqual(stricter, [])
      assert.deepStrictEqual(
        Array.from(looser).filter((path) => !known.test(path)),
        []
      )
    })
  )
})
