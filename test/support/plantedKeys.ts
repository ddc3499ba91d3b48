// Keys as vendors make them, one of each kind, from fixed seeds. None was ever given out.

const alphabets = {
  h: "0123456789abcdef",
  H: "0123456789ABCDEF",
  a: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
  l: "abcdefghijklmnopqrstuvwxyz0123456789",
  U: "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567",
  d: "0123456789",
  w: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-",
  b: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
} as const

/**
 * `{a20}` stands for twenty letters and digits; `{u}` for a UUID. The first and last characters are always letters or
 * digits.
 */
const grown = (pattern: string, seed: number): string => {
  let state = (seed * 2_654_435_761 + 12_345) >>> 0
  const next = (below: number): number => {
    state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9) >>> 0
    return (state >>> 8) % below
  }
  const of = (kind: keyof typeof alphabets, length: number): string =>
    Array.from({ length }, (_, at) => {
      const letters = at === 0 || at === length - 1 ? alphabets[kind].replace(/[^A-Za-z0-9]/g, "") : alphabets[kind]
      return letters.charAt(next(letters.length))
    }).join("")
  return pattern
    .replaceAll("{u}", "{h8}-{h4}-{h4}-{h4}-{h12}")
    .replaceAll(/\{([hHalUdwb])(\d+)\}/g, (_, kind: keyof typeof alphabets, length: string) => of(kind, Number(length)))
}

const patterns: Readonly<Record<string, string>> = {
  openai: "sk-proj-{w74}T3BlbkFJ{w74}",
  "openai legacy": "sk-{a20}T3BlbkFJ{a20}",
  anthropic: "sk-ant-api03-{w93}AA",
  "anthropic admin": "sk-ant-admin01-{w93}AA",
  openrouter: "sk-or-v1-{h64}",
  groq: "gsk_{a52}",
  xai: "xai-{a80}",
  perplexity: "pplx-{a48}",
  tavily: "tvly-{a32}",
  exa: "exa_{a32}",
  fal: "fal_{a32}",
  firecrawl: "fc-{h32}",
  replicate: "r8_{a37}",
  "hugging face": "hf_{a34}",
  "hugging face organisation": "api_org_{a34}",
  gemini: "AIza{w35}",
  "github pat": "ghp_{a36}",
  "github oauth": "gho_{a36}",
  "github user": "ghu_{a36}",
  "github server": "ghs_{a36}",
  "github refresh": "ghr_{a36}",
  "github fine-grained": "github_pat_{a22}_{a59}",
  "gitlab pat": "glpat-{w20}",
  "gitlab deploy": "gldt-{w20}",
  "gitlab pipeline": "glptt-{h40}",
  "gitlab runner": "glrt-{w20}",
  "gitlab feed": "glft-{w20}",
  "gitlab agent": "glagent-{w50}",
  "gitlab runner registration": "GR1348941{a20}",
  npm: "npm_{a36}",
  pypi: "pypi-AgEIcHlwaS5vcmc{w70}",
  rubygems: "rubygems_{h48}",
  nuget: "oy2{l43}",
  clojars: "CLOJARS_{a60}",
  aws: "AKIA{U16}",
  "aws temporary": "ASIA{U16}",
  bedrock: "ABSK{b120}",
  alibaba: "LTAI{a20}",
  "azure devops": "{a76}AZDO{a4}",
  "google oauth": "GOCSPX-{w28}",
  "google token": "ya29.{w60}",
  digitalocean: "dop_v1_{h64}",
  "digitalocean oauth": "doo_v1_{h64}",
  "docker hub": "dckr_pat_{w27}",
  heroku: "HRKU-AA{w58}",
  "fly.io": "fo1_{w43}",
  vercel: "vcp_{a24}",
  supabase: "sbp_{h40}",
  planetscale: "pscale_tkn_{a43}",
  "planetscale password": "pscale_pw_{a43}",
  databricks: "dapi{h32}",
  clickhouse: "4b1d{a38}",
  "slack bot": "xoxb-{d12}-{d12}-{a24}",
  "slack user": "xoxp-{d12}-{d12}-{d12}-{h32}",
  "slack app": "xapp-1-{U11}-{d13}-{h64}",
  "slack webhook": "https://hooks.slack.com/services/T{U10}/B{U10}/{a24}",
  "discord webhook": "https://discord.com/api/webhooks/{d18}/{w68}",
  telegram: "{d10}:AA{w33}",
  "stripe live": "sk_live_{a24}",
  "stripe test": "sk_test_{a24}",
  "stripe restricted": "rk_live_{a24}",
  square: "sq0atp-{w22}",
  shopify: "shpat_{h32}",
  "shopify secret": "shpss_{h32}",
  shippo: "shippo_live_{h40}",
  easypost: "EZAK{a54}",
  duffel: "duffel_live_{w43}",
  flutterwave: "FLWSECK_TEST-{h32}-X",
  plaid: "access-production-{u}",
  sendgrid: "SG.{w22}.{w43}",
  sendinblue: "xkeysib-{h64}-{a16}",
  mailgun: "key-{h32}",
  mailchimp: "{h32}-us12",
  resend: "re_{a8}_{a24}",
  twilio: "SK{h32}",
  "new relic": "NRAK-{U27}",
  grafana: "glsa_{a32}_{h8}",
  "grafana cloud": "glc_{a64}",
  "sentry user": "sntryu_{h64}",
  dynatrace: "dt0c01.{U24}.{U64}",
  posthog: "phc_{a43}",
  postman: "PMAK-{h24}-{h34}",
  linear: "lin_api_{a40}",
  notion: "ntn_{d11}{a35}",
  airtable: "pat{a14}.{h64}",
  atlassian: "ATATT3{w186}",
  figma: "figd_{w40}",
  typeform: "tfp_{w59}",
  hubspot: "pat-na1-{u}",
  readme: "rdme_{l70}",
  doppler: "dp.pt.{a43}",
  pulumi: "pul-{h40}",
  terraform: "{a14}.atlasv1.{w64}",
  vault: "hvs.{w95}",
  "vault batch": "hvb.{w140}",
  "1password": "A3-{U6}-{U11}-{U5}-{U5}-{U5}",
  "1password service account": "ops_eyJ{b260}",
  age: "AGE-SECRET-KEY-1{U58}",
  tailscale: "tskey-auth-{a12}-{a24}",
  cloudflare: "v1.0-{h24}-{h146}",
  launchdarkly: "sdk-{u}",
  octopus: "API-{U26}",
  openshift: "sha256~{w43}",
  prefect: "pnu_{a36}",
  scalingo: "tk-us-{w48}",
  sourcegraph: "sgp_{h40}",
  artifactory: "AKCp{a69}",
  infracost: "ico-{a32}",
  frameio: "fio-u-{w64}",
  maxmind: "{a6}_{a29}_mmk",
  sonar: "sqp_{h40}",
  lob: "live_{h35}",
  yandex: "AQVN{w36}",
  adobe: "p8e-{l32}",
  jwt: "eyJ{a20}.eyJ{a40}.{w43}",
  adyen: "AQEyhmf{b120}",
  aiven: "AVNS_{w19}",
  anyscale: "esecret_{a26}",
  apify: "apify_api_{a36}",
  asana: "2/{d16}/{d16}:{h32}",
  "aws session": "IQoJb3JpZ2luX2Vj{a300}",
  bitbucket: "ATCTT3{w186}",
  bitcoin: "xprv{a107}",
  braintree: "access_token$production${l16}${h32}",
  brave: "BSA{a24}a7{a2}",
  buildkite: "bkua_{h40}",
  cartesia: "sk_car_{a24}",
  cerebras: "csk-{l48}",
  circleci: "CCIPAT_{a22}_{h40}",
  clickup: "pk_{d8}_{U32}",
  "cloudflare token": "cfut_{a48}",
  cockroachdb: "CCDB1_{a22}_{a40}",
  codesandbox: "csb_v1_{w43}",
  contentful: "CFPAT-{w43}",
  "crates.io": "cio{a15}7{a16}",
  daytona: "dtn_{h64}",
  "deno deploy": "ddp_{a36}",
  "discord bot": "MT{a24}.{a6}.{w38}",
  dropbox: "sl.u.{w140}",
  e2b: "e2b_{h40}",
  elevenlabs: "sk_{h48}",
  fireworks: "fw_{a24}",
  "google refresh": "1//0{w60}",
  "grafana api key": "eyJrIjoi{a80}",
  honeycomb: "hcaik_{l58}",
  infisical: "st.{h24}.{h32}.{h32}",
  intercom: "dG9rO{a54}",
  jina: "jina_{w64}",
  klaviyo: "pk_{h34}",
  langsmith: "lsv2_pt_{h32}_{h10}",
  langfuse: "sk-lf-{u}",
  mailersend: "mlsn.{h64}",
  mem0: "m0-{a40}",
  modal: "ak-{a10}7{a11}",
  mollie: "live_{a14}7{a15}",
  neon: "napi_{l64}",
  netlify: "nfp_{a36}",
  nvidia: "nvapi-{w64}",
  "openai session": "sess-{a40}",
  packagist: "packagist_uut_{h68}",
  pinecone: "pcsk_{a6}_{a63}",
  razorpay: "rzp_live_{a14}",
  render: "rnd_{a28}",
  retell: "key_{h28}",
  runpod: "rpa_{U40}",
  salesforce: "00D{a15}!AQ{a94}",
  "slack rotated": "xoxe.xoxp-1-{a160}",
  "slack workflow": "xwfp-{a64}",
  snyk: "snyk_uat.{h8}.{w64}",
  "sourcegraph licence": "slk_{h64}",
  "stripe webhook": "whsec_{a32}",
  "supabase secret": "sb_secret_{w31}",
  together: "tgp_v1_{w43}",
  twitter: "AAAAAAAAAAAAAAAAAAAAAB{a20}%2B{a46}",
  voyage: "pa-{a20}A7{a21}",
  wakatime: "waka_{u}",
  xata: "xau_{a40}",
  "you.com": "ydc-sk-{a32}",
  "azure client secret": "{a3}8Q~{w34}",
  firebase: "{a22}:APA91b{w134}",
  zapier: "https://hooks.zapier.com/hooks/catch/{d8}/{l7}",
  ifttt: "https://maker.ifttt.com/trigger/alarm/with/key/{w43}"
}

type Keys = ReadonlyArray<readonly [kind: string, key: string]>

const keysFrom = (seed: number): Keys =>
  Object.entries(patterns).map(([kind, pattern], at) => [kind, grown(pattern, seed + at)] as const)

/** A key of every kind, by its kind. */
export const plantedKeys: Keys = keysFrom(1)

/** Other keys of the same kinds in the same order: those that no runtime holds. */
export const foreignKeys: Keys = keysFrom(1_001)

/**
 * One of each make: vendor prefixes long and short, an address, parts with separators, base64 with its signs, nothing
 * to know it by.
 */
const representative = new Set([
  "openai",
  "anthropic admin",
  "github fine-grained",
  "aws",
  "bedrock",
  "slack webhook",
  "telegram",
  "stripe live",
  "1password",
  "jwt",
  "azure devops",
  "maxmind"
])

/** True where every kind is searched for in every sink (`npm run test:secrets`). */
export const isWhole = process.env["HERMES_TEST_SECRETS"] !== undefined

const isSelected = ([kind]: Keys[number]): boolean => isWhole || representative.has(kind)

/**
 * {@link plantedKeys} that are searched for in sinks: one of each make, or every one where `HERMES_TEST_SECRETS` is
 * set.
 */
export const selectedKeys: Keys = plantedKeys.filter(isSelected)

/** {@link foreignKeys} of the same kinds as {@link selectedKeys}. */
export const selectedForeignKeys: Keys = foreignKeys.filter(isSelected)

const base64 = (text: string): string => Buffer.from(text).toString("base64")

/** The forms that a value takes on its way through a shell or a model. */
export const encoded: Readonly<Record<string, (value: string) => string>> = {
  plain: (value) => value,
  "base64, alone": base64,
  "base64, one byte before it": (value) => base64(`x${value}\n`),
  "base64, two bytes before it": (value) => base64(`xy${value}.`),
  "base64, wrapped": (value) => base64(`KEY=${value}\n`).replaceAll(/.{20}/g, "$&\n"),
  base64url: (value) => Buffer.from(`ab${value}`).toString("base64url"),
  hexadecimal: (value) => Buffer.from(value).toString("hex"),
  "hexadecimal, upper case, wrapped": (value) =>
    Buffer.from(value).toString("hex").toUpperCase().replaceAll(/.{16}/g, "$&\n"),
  "percent-encoded": encodeURIComponent,
  "percent-encoded, every byte": (value) =>
    Array.from(Buffer.from(value), (byte) => `%${byte.toString(16).padStart(2, "0")}`).join(""),
  "a string of JSON": (value) => JSON.stringify({ x: value }),
  "a string of JSON in one of JSON": (value) => JSON.stringify(JSON.stringify({ x: value })),
  "base64, wrapped, in a string of JSON": (value) =>
    JSON.stringify(base64(`KEY=${value}\n`).replaceAll(/.{20}/g, "$&\n")),
  "in reverse": (value) => Array.from(value).reverse().join(""),
  "wrapped at eight characters": (value) => value.replaceAll(/.{8}/g, "$&\n")
}
