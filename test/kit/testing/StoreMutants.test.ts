// For each rule of session stores and of the search in them a store that breaks it, and is told so.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import { SessionBusy, SessionStoreError } from "../../../src/base/domain/AgentError.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { SessionSearch } from "../../../src/store/SessionSearch.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { CurrentTenant, scopeStore } from "../../../src/store/TenantScope.ts"
import * as Conformance from "../../../src/kit/testing/Conformance.ts"
import * as SessionSearchRules from "../../../src/kit/testing/SessionSearchRules.ts"
import * as SessionStoreRules from "../../../src/kit/testing/SessionStoreRules.ts"

type Store = SessionStore.Service
type Search = (typeof SessionSearch)["Service"]["search"]
type Hit = Effect.Success<ReturnType<Search>>[number]

const nameOf = ({ about, name }: { readonly about: string; readonly name: string }) => `${about}: ${name}`

/** The store in memory, with another behaviour in some place. */
const mutated = (
  changeStore: (store: Store) => Partial<Store>,
  changeSearch: (search: Search) => Search = (search) => search
) =>
  Layer.effectContext(
    Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      const search = yield* SessionSearch
      return Context.make(SessionStore.SessionStore, { ...store, ...changeStore(store) }).pipe(
        Context.add(SessionSearch, { ...search, search: changeSearch(search.search) })
      )
    })
  ).pipe(Layer.provide(SessionStore.layerMemory))

const lost = (operation: string) => new SessionStoreError({ operation, message: "refused" })
const busy = (id: SessionId) => new SessionBusy({ sessionId: id })

/** Ownership of sessions by another idea of when one is owned. */
const owning = (
  isOwned: (since: number | undefined, now: number) => boolean,
  pause: Effect.Effect<void> = Effect.void
): Partial<Store> => {
  const owners = new Map<string, number>()
  return {
    acquire: (id) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const taken = isOwned(owners.get(id), now)
        yield* pause
        if (taken) return yield* busy(id)
        yield* Effect.acquireRelease(
          Effect.sync(() => owners.set(id, now)),
          () => Effect.sync(() => owners.delete(id))
        )
        return { lost: undefined }
      })
  }
}

/** A resolver that looks at what is listed before it asks the store. */
const resolving =
  (find: (reference: string, listed: ReadonlyArray<SessionStore.Session>) => SessionStore.Session | undefined) =>
  (store: Store): Partial<Store> => ({
    resolve: (reference, folder) =>
      Effect.flatMap(store.list(), (listed) =>
        Effect.flatMap(
          Effect.sync(() => find(reference, listed)),
          (found) => (found === undefined ? store.resolve(reference, folder) : Effect.succeed(found))
        )
      )
  })

const asOwner = Effect.provideService(CurrentTenant, undefined)

/** Members of a store that concern one session. */
const guarded = [
  "get",
  "messages",
  "readable",
  "begun",
  "usageByModel",
  "listSteps",
  "answerQuestions",
  "resolve",
  "acquire",
  "create",
  "begin",
  "append",
  "recordUsage",
  "end",
  "rename",
  "suspend",
  "closeQuestions",
  "storeStep",
  "continueIn",
  "remove"
] as const satisfies ReadonlyArray<keyof Store>

const stores: ReadonlyArray<readonly [does: string, change: (store: Store) => Partial<Store>, rule: string]> = [
  [
    "forgets the directory",
    (store) => ({ create: (session) => store.create({ ...session, cwd: undefined }) }),
    "sessions: a new session is what it was made of, with nothing in it"
  ],
  [
    "takes a call that waits for one that began",
    (store) => ({ suspend: (id, suspension) => store.suspend(id, { ...suspension, callIds: [] }) }),
    "questions: are stored with the end of their run, as they were asked, and their calls no longer count as begun"
  ],
  [
    "shows questions to every audience",
    (store) => ({ listQuestions: (filter) => store.listQuestions({ ...filter, audience: undefined }) }),
    "questions: are listed by session, audience, kind and state, oldest first"
  ],
  [
    "takes every answer",
    (store) => ({ answerQuestions: (id, answers) => Effect.as(store.answerQuestions(id, answers), true) }),
    "questions: are answered once, all or none"
  ],
  [
    "leaves the questions of ended calls open",
    () => ({ closeQuestions: () => Effect.void }),
    "questions: are closed with their calls, and so are the results of steps"
  ],
  [
    "leaves the steps of a compacted conversation behind",
    (store) => ({ listSteps: (id) => (id.endsWith("bbbbbb") ? Effect.succeed([]) : store.listSteps(id)) }),
    "questions: move with a compacted conversation, and are removed with their session"
  ],
  [
    "knows no continuations",
    () => ({ newest: (id) => Effect.succeed(id) }),
    "sessions: a compacted session goes on in one other, which has its messages; the newest of a chain is its end"
  ],
  [
    "ends a session whose continuation failed",
    (store) => ({
      continueIn: (id, next) =>
        Effect.tapError(store.continueIn(id, next), () => Effect.ignore(store.end(id, "compression")))
    }),
    "sessions: a continuation that cannot be made leaves nothing behind, and the session as it is"
  ],
  [
    "gives the session that is there",
    (store) => ({
      create: (session) =>
        Effect.catch(store.create(session), () => Effect.map(store.get(session.id), Option.getOrThrow))
    }),
    "sessions: an id can be used once"
  ],
  [
    "says nothing where there is no session",
    (store) => ({ end: (id, reason) => Effect.ignore(store.end(id, reason)) }),
    "sessions: a session that is not there reads as nothing, and cannot be written to"
  ],
  [
    "leaves an ended session ended",
    (store) => ({
      append: (id, messages) => Effect.tap(store.append(id, messages), () => store.end(id, "text_response"))
    }),
    "sessions: the end of a run is marked, and the next message reopens the session"
  ],
  [
    "keeps the title of what it removed",
    (store) => {
      const titles = new Set<string | undefined>()
      return {
        create: (session) =>
          Effect.suspend(() => {
            if (session.title !== undefined && titles.has(session.title))
              return Effect.fail(new SessionStoreError({ operation: "create", message: "taken" }))
            titles.add(session.title)
            return store.create(session)
          })
      }
    },
    "sessions: a session that is removed is gone with all that belongs to it, and its id is free again"
  ],
  [
    "lists every source",
    (store) => ({ list: (options) => store.list({ ...options, source: undefined }) }),
    "sessions: lists the newest activity first, by source, within a limit"
  ],
  [
    "lists all when it is not told how many",
    (store) => ({ list: (options) => store.list({ limit: 100, ...options }) }),
    "sessions: twenty sessions are listed when no number is given"
  ],
  [
    "trims the system prompt",
    (store) => ({ create: (session) => store.create({ ...session, systemPrompt: session.systemPrompt.trim() }) }),
    "sessions: the system prompt comes back byte for byte"
  ],
  [
    "gives all messages, whatever the range",
    (store) => ({ messages: (id) => store.messages(id) }),
    "messages: come back in order, over several appends, and are counted"
  ],
  [
    "gives the list that it appends to",
    (store) => {
      const live = new Map<string, Array<Prompt.Message>>()
      return {
        append: (id, messages) =>
          Effect.tap(store.append(id, messages), () => Effect.sync(() => live.get(id)?.push(...messages))),
        messages: (id) => Effect.map(store.messages(id), (messages) => live.set(id, [...messages]).get(id) ?? [])
      }
    },
    "messages: what was read does not grow with the session"
  ],
  [
    "counts places from one",
    (store) => ({
      readable: (id) =>
        Effect.map(store.readable(id), ({ faults, messages }) => ({
          faults,
          messages: messages.map((one) => ({ ...one, position: one.position + 1 }))
        }))
    }),
    "messages: that can be read have their places"
  ],
  [
    "writes message by message",
    (store) => ({
      append: (id, messages) =>
        Effect.map(
          Effect.forEach(messages, (message) => Effect.andThen(Effect.yieldNow, store.append(id, [message]))),
          ([first = 0]) => first
        )
    }),
    "messages: appended by many fibers at once are all there, each batch together"
  ],
  [
    "knows one call that began",
    (store) => ({ begun: (id) => Effect.map(store.begun(id), (calls) => new Set(Array.from(calls).slice(0, 1))) }),
    "calls that began: are known until their result is stored, whatever else is"
  ],
  [
    "notes each id once",
    (store) => {
      const seen = new Set<string>()
      return {
        begin: (id, calls) =>
          Effect.suspend(() => {
            const fresh = calls.filter((call) => !seen.has(call))
            for (const call of fresh) seen.add(call)
            return store.begin(id, fresh)
          })
      }
    },
    "calls that began: of an id that was used before begin anew"
  ],
  [
    "keeps calls of what it removed",
    () => {
      const begun = new Map<string, Set<string>>()
      return {
        begin: (id, calls) => Effect.sync(() => void begun.set(id, new Set([...(begun.get(id) ?? []), ...calls]))),
        begun: (id) => Effect.sync(() => new Set(begun.get(id)))
      }
    },
    "calls that began: go with their session"
  ],
  [
    "has no owners",
    () => ({ acquire: () => Effect.succeed({ lost: undefined }) }),
    "ownership: belongs to one scope at a time, and can be had again when that is closed"
  ],
  [
    "looks before it takes",
    () => owning((since) => since !== undefined, Effect.yieldNow),
    "ownership: is given to one of many who ask at once"
  ],
  [
    "forgets an owner after a while",
    () => owning((since, now) => since !== undefined && now - since < 60_000),
    "ownership: is kept however long it takes"
  ],
  [
    "keeps titles as they are typed",
    (store) => {
      const typed = new Map<string, string | undefined>()
      return {
        create: (session) =>
          Effect.tap(store.create(session), () => Effect.sync(() => typed.set(session.id, session.title))),
        get: (id) =>
          Effect.map(
            store.get(id),
            Option.map((session) => ({ ...session, title: typed.get(id) }))
          )
      }
    },
    "titles: are one line without control characters"
  ],
  [
    "cuts long titles",
    (store) => ({ rename: (id, title) => store.rename(id, Array.from(title).slice(0, 100).join("")) }),
    "titles: have 1 to 100 characters"
  ],
  [
    "renames as far as it can",
    (store) => ({ rename: (id, title) => Effect.ignore(store.rename(id, title)) }),
    "titles: belong to one session"
  ],
  [
    "looks for titles first",
    resolving((reference, listed) => listed.find(({ title }) => title === reference)),
    "references: an exact id wins over everything else"
  ],
  [
    "opens the first that fits",
    (store) => ({
      resolve: (reference, folder) =>
        Effect.catchTag(store.resolve(reference, folder), "SessionNotFound", (error) =>
          Effect.flatMap(
            store.get(SessionId.make(error.candidates[0] ?? "")),
            Option.match({ onNone: () => Effect.fail(error), onSome: Effect.succeed })
          )
        )
    }),
    "references: a beginning that several ids share opens none of them and names them all"
  ],
  [
    "gives its reference to LIKE",
    resolving((reference, listed) => (reference.includes("%") && reference.length < 3 ? listed[0] : undefined)),
    "references: signs that mean something to SQL are only signs"
  ],
  [
    "takes a title for the one session that has it",
    resolving((reference, listed) => listed.find(({ title }) => title === reference)),
    "references: a title means the last of its continuations"
  ],
  [
    "counts sessions of children",
    resolving((reference, listed) => (reference === "latest" ? listed[0] : undefined)),
    "references: latest is the newest activity of a session that is somebody's"
  ],
  [
    "forgets the folder",
    (store) => ({ resolve: (reference) => store.resolve(reference) }),
    "references: latest of a folder is the newest session whose directory belongs to it, and no session of another one"
  ],
  [
    "sums over the providers",
    (store) => ({ recordUsage: (id, record) => store.recordUsage(id, { ...record, provider: "any" }) }),
    "usage: is summed by provider and model, and over all of them"
  ],
  [
    "gives the sessions of all tenants",
    (store) => ({ list: (options) => asOwner(store.list({ ...options, tenant: undefined })) }),
    "tenants: sessions are listed by tenant"
  ],
  [
    "gives the questions of all tenants",
    (store) => ({ listQuestions: (filter) => asOwner(store.listQuestions(filter)) }),
    "tenants: questions are listed by tenant"
  ],
  [
    "takes the tenant that a session asks for",
    (store) => ({ create: (session) => asOwner(store.create(session)) }),
    "tenants: a session belongs to the tenant that begins it, whatever it asks for"
  ],
  [
    "goes on in the session of another tenant",
    (store) => ({ newest: (id) => asOwner(store.newest(id)) }),
    "tenants: newest follows no session of another tenant"
  ],
  [
    "remembers who had an id",
    (store) => {
      const owners = new Map<string, SessionStore.Session>()
      return {
        get: (id) =>
          Effect.flatMap(CurrentTenant, (tenant) => {
            const before = owners.get(id)
            if (before !== undefined && before.tenant === tenant) return Effect.succeed(Option.some(before))
            return store.get(id)
          }),
        create: (session) =>
          Effect.tap(store.create(session), (made) =>
            Effect.sync(() => owners.has(made.id) || owners.set(made.id, made))
          )
      }
    },
    "tenants: an id that is used again belongs to its new tenant alone"
  ],
  [
    "has titles for all tenants together",
    (store) => ({
      create: (session) =>
        Effect.gen(function* () {
          const all = yield* asOwner(store.list({ limit: 100 }))
          if (session.title !== undefined && all.some(({ title }) => title === session.title))
            return yield* lost("create")
          return yield* store.create(session)
        })
    }),
    "tenants: titles are unique within a tenant only"
  ],
  [
    "takes the newest session of a title",
    (store) => ({
      resolve: (reference, folder) =>
        Effect.gen(function* () {
          const all = yield* asOwner(store.list({ limit: 100 }))
          return all.find(({ title }) => title === reference) ?? (yield* store.resolve(reference, folder))
        })
    }),
    "tenants: a title means the session of the tenant, and without one the session without a tenant"
  ],
  [
    "numbers the continuations of all tenants together",
    (store) => ({
      continueIn: (id, given) =>
        Effect.gen(function* () {
          const all = yield* asOwner(store.list({ limit: 100 }))
          const numbers = all.map(({ title }) => Number(title?.split("#")[1] ?? 1))
          const made = yield* store.continueIn(id, given)
          return { ...made, title: `Harbour #${Math.max(...numbers) + 1}` }
        })
    }),
    "tenants: continuations are numbered within a tenant"
  ],
  ...guarded.map(
    (member) =>
      [
        `asks for no tenant in ${member}`,
        (store: Store): Partial<Store> => {
          const original: (...given: Array<never>) => Effect.Effect<unknown, unknown, unknown> = store[member]
          return { [member]: (...given: Array<never>) => asOwner(original(...given)) }
        },
        `tenants: ${member} treats the session of another tenant as a missing one`
      ] as const
  )
]

const asking =
  (change: (query: string) => string) =>
  (search: Search): Search =>
  (query, options) =>
    search(change(query), options)
const finding =
  (change: (hits: ReadonlyArray<Hit>, query: string) => ReadonlyArray<Hit>) =>
  (search: Search): Search =>
  (query, options) =>
    Effect.map(search(query, options), (hits) => change(hits, query))
const isAscii = (text: string): boolean => Array.from(text).every((sign) => sign < "\u0080")
const words = (query: string): ReadonlyArray<string> => query.split(" ")
const literally = finding((hits, query) =>
  hits.filter(({ snippet }) => words(query).every((word) => snippet.replaceAll(/>>>|<<</g, "").includes(word)))
)

const searches: ReadonlyArray<readonly [does: string, change: (search: Search) => Search, rule: string]> = [
  [
    "shows what children wrote",
    finding((hits) => hits.flatMap((hit) => [hit, { ...hit, sessionId: SessionId.make("hidden"), messageId: 0 }])),
    "fox finds one:2"
  ],
  ["tells capitals apart", literally, "FOX quick finds one:2"],
  ["tells accents apart", literally, "reunion finds one:0"],
  ["asks for any of the words", asking((query) => words(query).join(" OR ")), "quick cat finds nothing"],
  [
    "looks for the quotes of a phrase",
    finding((hits, query) => (query.startsWith('"') ? [] : hits)),
    '"brown fox" finds one:2'
  ],
  ["takes a phrase for its words", asking((query) => query.replaceAll('"', "")), '"fox brown" finds nothing'],
  ["takes a joined word for two", asking((query) => query.replaceAll("-", " ")), "well-known finds one:0"],
  [
    "takes words for a phrase",
    asking((query) => (query.startsWith("known") ? `"${query}"` : query)),
    "known well finds one:0, two:0"
  ],
  ["parts a name at its underscore", asking((query) => query.replaceAll("_", " ")), "parse_format finds one:3"],
  ["takes the sign for any end away", asking((query) => query.replaceAll("*", "")), "pars* finds one:0, one:3, two:1"],
  ["finds beginnings of words", asking((query) => `${query}*`), "pars finds nothing"],
  ["takes OR for AND", asking((query) => query.replaceAll(" OR ", " ")), "fox OR wins finds one:2, two:1"],
  ["takes NOT for AND", asking((query) => query.replaceAll(" NOT ", " ")), "format NOT work finds one:0, one:3"],
  ["takes AND for a word", asking((query) => query.toLowerCase()), "format AND work finds two:0"],
  [
    "does not look at results",
    (search) => (query, options) => search(query, { ...options, roles: ["user", "assistant"] }),
    "read_file finds one:1, one:2"
  ],
  [
    "does not look at arguments",
    finding((hits) => hits.filter(({ snippet }) => !snippet.includes("report"))),
    "docs/report.md finds one:1"
  ],
  ["knows words of Latin letters alone", finding((hits, query) => (isAscii(query) ? hits : [])), "会議 finds two:1"],
  [
    "finds signs in any order",
    asking((query) =>
      isAscii(query)
        ? query
        : Array.from(query)
            .toSorted((a, b) => (b < a ? 1 : -1))
            .join("")
    ),
    "議会 finds nothing"
  ],
  [
    "knows no OR beside other signs than letters",
    asking((query) => (isAscii(query) ? query : (query.split(" OR ")[0] ?? ""))),
    "会議 wins OR fox finds one:2, two:1"
  ],
  [
    "finds all for nothing",
    asking((query) => (query.trim() === "" ? "fox" : query)),
    "a query that asks for nothing finds nothing"
  ],
  [
    "gives up at an odd quote",
    finding((hits, query) => (query.split('"').length % 2 === 0 ? [] : hits)),
    "a query with loose ends asks for the rest of it"
  ],
  [
    "does not mark what it found",
    finding((hits) => hits.map((hit) => ({ ...hit, snippet: hit.snippet.replaceAll(/>>>|<<</g, "") }))),
    "a hit shows where it fits, and what stands around it"
  ],
  [
    "shows the whole message",
    finding((hits) => hits.map((hit) => ({ ...hit, snippet: hit.snippet.padEnd(7000, ".") }))),
    "a long message is shown around the fit"
  ],
  [
    "has an order of its own",
    (search) => (query, options) => search(query, { ...options, sort: "newest" }),
    "hits are chosen by session, role, order and number"
  ]
]

const told = (rule: string, subject: Layer.Layer<SessionStore.SessionStore | SessionSearch>) =>
  Effect.map(
    Conformance.runRules(
      SessionStoreRules.rules.filter((one) => nameOf(one) === rule),
      subject
    ),
    (results) =>
      assert.deepStrictEqual(
        results.map(({ broken }) => broken !== undefined),
        [true]
      )
  )

describe("session stores that break a rule", () => {
  it.live("a search that finds the messages of all tenants is told: search finds the messages of a tenant alone", () =>
    told(
      "tenants: search finds the messages of a tenant alone",
      mutated(
        () => ({}),
        (search) => (query, options) => asOwner(search(query, options))
      )
    )
  )
  for (const [does, change, rule] of stores)
    it.live(`one that ${does} is told: ${rule}`, () => told(rule, mutated(change)))
  for (const [does, change, rule] of searches)
    it.live(`a search that ${does} is told: ${rule}`, () =>
      told(
        `search: ${rule}`,
        mutated(() => ({}), change)
      )
    )

  it.live("the store that they are made of keeps the rules", () =>
    Effect.map(
      Conformance.runRules(
        SessionStoreRules.rules,
        mutated(() => ({}))
      ),
      (results) =>
        assert.deepStrictEqual(
          results.filter(({ broken }) => broken !== undefined),
          []
        )
    )
  )

  it.live(
    "a store that knows nothing of the tenant of the fiber keeps the rules of tenants in a scope, only there",
    () =>
      Effect.gen(function* () {
        const blind = (store: Store): Store => {
          const free = (member: unknown): unknown => {
            if (Effect.isEffect(member)) return asOwner(member)
            return typeof member === "function" ? (...given: ReadonlyArray<unknown>) => free(member(...given)) : member
          }
          // Each member keeps its arguments and its result.
          return Object.fromEntries(Object.entries(store).map(([name, member]) => [name, free(member)])) as never
        }
        const rules = SessionStoreRules.rules.filter(
          (rule) => rule.about === "tenants" && !rule.name.startsWith("search")
        )
        const countBroken = (change: (store: Store) => Store) =>
          Effect.map(
            Conformance.runRules(rules, mutated(change)),
            (results) => results.filter(({ broken }) => broken !== undefined).length
          )
        assert.isAbove(yield* countBroken(blind), 20)
        assert.strictEqual(yield* countBroken((store) => scopeStore(blind(store))), 0)
      })
  )

  it("every rule has a store that breaks it", () => {
    const named = new Set([
      ...stores.map(([, , rule]) => rule),
      ...searches.map(([, , rule]) => `search: ${rule}`),
      "tenants: search finds the messages of a tenant alone"
    ])
    assert.deepStrictEqual(
      SessionStoreRules.rules.map(nameOf).filter((rule) => !named.has(rule)),
      []
    )
    assert.strictEqual(SessionSearchRules.rules.length, searches.length)
  })
})
