/**
 * The shapes of vendors' keys: the prefix, alphabet and length of each kind of key.
 *
 * **Details**
 *
 * The facts come from the gitleaks project (github.com/gitleaks/gitleaks, `config/gitleaks.toml`, commit b58d3f10, MIT
 * licence), for every rule that recognizes a key only by its shape. Rules that need a vendor's name next to the key
 * belong to `Redaction`, which knows names of settings. Lengths are lower limits for vendors that have changed them
 * before.
 *
 * **Gotchas**
 *
 * Every pattern begins with a literal and repeats one character class at a time, so that a search takes linear time.
 */

/**
 * A kind of key. `prefix` is the pattern source of a literal, and `rest` is the pattern source of everything after it.
 */
type Shape = readonly [kind: string, prefix: string, rest: string]

const hex = "[a-fA-F0-9]"
const letters = "[A-Za-z0-9]"
const word = String.raw`[\w-]`
const dotted = String.raw`[\w=.-]`
/** A base64 character, plain or percent-encoded. */
const base64 = "(?:[A-Za-z0-9+/]|%2[BbFf])"
const uuid = `${hex}{8}-${hex}{4}-${hex}{4}-${hex}{4}-${hex}{12}`

/** Shapes of keys, matched at the beginning of a word. */
const shapes: ReadonlyArray<Shape> = [
  [
    "1Password secret key",
    "A3-",
    "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"
  ],
  ["1Password service account", "ops_eyJ", `${base64}{64,}={0,3}`],
  ["Adobe", "p8e-", `${letters}{32}`],
  ["age", "AGE-SECRET-KEY-1", "[A-Z0-9]{58}"],
  ["Airtable", "pat", `${letters}{14}\\.${hex}{64}`],
  ["Alibaba", "LTAI", `${letters}{12,30}`],
  ["Artifactory key", "AKCp", `${letters}{60,}`],
  ["Artifactory reference", "cmVmd", `${letters}{59}`],
  ["Atlassian", "ATATT3", String.raw`[\w=-]{60,}`],
  ["Atlassian app password", "ATBB", `${letters}{24,}`],
  [
    "Authress",
    "(?:sc|ext|scauth|authress)_",
    `${letters}{5,30}\\.${letters}{4,6}\\.acc[_-][a-z0-9-]{10,32}\\.[A-Za-z0-9+/_=-]{30,120}`
  ],
  ["AWS access key id", "(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])", "[A-Z0-9]{16}"],
  ["AWS Bedrock", "ABSK", `${base64}{80,}={0,2}`],
  ["AWS Bedrock, short-lived", "bedrock-api-key-", `${base64}{24,}={0,2}`],
  ["Beamer", "b_", String.raw`[a-z0-9=_-]{44}`],
  ["ClickHouse", "4b1d", `${letters}{38}`],
  ["Clojars", "CLOJARS_", `${letters}{60}`],
  ["Cloudflare origin CA", String.raw`v1\.0-`, `${hex}{24}-${hex}{146}`],
  ["Databricks", "dapi", `${hex}{32}(?:-\\d)?`],
  ["Defined Networking", "dnkey-", `${word}{26}-${word}{52}`],
  ["DigitalOcean", "do[opr]_v1_", `${hex}{64}`],
  ["Docker Hub", "dckr_(?:pat|oat)_", `${word}{27,}`],
  ["Doppler", String.raw`dp\.(?:pt|st|ct|sa|scim|audit)\.`, `(?:[a-z0-9_-]{2,35}\\.)?${letters}{40,}`],
  ["Duffel", "duffel_(?:test|live)_", `${dotted}{43}`],
  ["Dynatrace", String.raw`dt0c01\.`, `${letters}{24}\\.${letters}{64}`],
  ["EasyPost", "EZ[AT]K", `${letters}{54}`],
  ["Facebook page", "EAA[MC]", `${letters}{100,}`],
  ["Figma", "fig[dour]_", `${word}{40,}`],
  ["Flutterwave", "FLW(?:SECK|PUBK)(?:_TEST)?-", `${letters}{12,}(?:-X)?`],
  ["Fly.io", "fo1_", `${word}{43}`],
  ["Fly.io macaroon", "fm(?:1[ar]|2)_", `${base64}{60,}={0,3}`],
  ["Frame.io", "fio-u-", `${dotted}{64}`],
  [
    "GitLab",
    "(?:glpat|gldt|glft|glimt|glagent|gloas|glptt|glrt|glsoat|glffct|glcbt|glrtr|glwt)-",
    String.raw`[\w.-]{20,}`
  ],
  ["GitLab runner registration", "GR1348941", `${word}{20}`],
  ["GitLab session", "_gitlab_session=", `${letters}{32}`],
  ["Google OAuth secret", "GOCSPX-", `${word}{28}`],
  ["Google OAuth token", String.raw`ya29\.`, `${word}{30,}`],
  ["Grafana Cloud", "glc_", `${base64}{32,}={0,3}`],
  ["Grafana service account", "glsa_", `${letters}{32}_${hex}{8}`],
  ["Harness", String.raw`[ps]at\.`, `${word}{22}\\.${letters}{24}\\.${letters}{20}`],
  ["HashiCorp Vault", String.raw`hv[bsr]\.`, `${word}{24,}`],
  ["Heroku", "HRKU-", `${word}{36,}`],
  ["HubSpot", "pat-(?:na|eu)1-", uuid],
  ["Hugging Face organisation", "api_org_", `${letters}{34}`],
  ["Infracost", "ico-", `${letters}{32}`],
  ["Intra42", "s-s4t2(?:ud|af)-", `${hex}{64}`],
  ["LaunchDarkly", "(?:api|sdk|mob)-", uuid],
  ["Linear", "lin_(?:api|oauth)_", `${letters}{32,}`],
  ["Lob", "(?:live|test)_(?:pub_)?", `${hex}{31,35}`],
  ["Mailgun", "(?:pub)?key-", `${hex}{32}`],
  ["Mapbox", String.raw`[ps]k\.eyJ`, `${word}{40,}\\.${word}{22}`],
  ["New Relic", "NR(?:AK|JS|II|RA|IQ|AL)-", "[A-Za-z0-9-]{19,}"],
  ["Notion", "(?:ntn_|secret_)", `${letters}{40,}`],
  ["NuGet", "oy2", "[a-z0-9]{43}"],
  ["Octopus Deploy", "API-", "[A-Z0-9]{26}"],
  ["OpenShift", "sha256~", `${word}{43}`],
  ["Plaid", "access-(?:sandbox|development|production)-", uuid],
  ["PlanetScale", "pscale_(?:tkn|oauth|pw)_", `${dotted}{32,64}`],
  ["PostHog", "ph[cx]_", `${letters}{40,}`],
  ["Postman", "PMAK-", `${hex}{24}-${hex}{34}`],
  ["Prefect", "pn[ub]_", `${letters}{36}`],
  ["Pulumi", "pul-", `${hex}{40}`],
  ["ReadMe", "rdme_", "[a-z0-9]{70}"],
  ["Resend", "re_", `${letters}{8}_${letters}{24}`],
  ["RubyGems", "rubygems_", `${hex}{48}`],
  ["Scalingo", "tk-us-", `${word}{48}`],
  ["Sendinblue", "xkeysib-", `${hex}{64}-${letters}{16}`],
  ["Sentry organisation", "sntrys_", "[A-Za-z0-9+/=_]{40,}"],
  ["Sentry user", "sntryu_", `${hex}{64}`],
  ["SettleMint", "sm_(?:aat|pat|sat)_", `${letters}{16}`],
  ["Shippo", "shippo_(?:live|test)_", `${hex}{40}`],
  ["Shopify", "shp(?:at|ca|pa|ss)_", `${hex}{32}`],
  ["Sonar", "sq[upa]_", `${hex}{40}`],
  ["Sourcegraph", "sgp_", `(?:(?:${hex}{16}|local)_)?${hex}{40}`],
  ["Square", "(?:(?<![+/])EAAA|sq0(?:atp|csp|idp)-)", `${word}{22,60}`],
  ["Supabase", "sbp_", `${hex}{40}`],
  ["Tailscale", "tskey-", "[a-z]{1,12}-[A-Za-z0-9-]{16,}"],
  ["Twilio", "SK", `${hex}{32}`],
  ["Twilio account", "AC", "[a-f0-9]{32}"],
  ["Typeform", "tfp_", `${dotted}{40,}`],
  ["Vercel", "vc[pkira]_", `${letters}{24,}`],
  ["Yandex", "AQVN", `${word}{35,38}`],
  ["Yandex IAM", String.raw`t1\.`, `[A-Z0-9a-z_-]{8,}={0,2}\\.${word}{86}={0,2}`],
  ["Zuplo", "zpka_", String.raw`\w{24,}`]
]

/** Requires a digit among the next characters of a class: keys contain digits, but names in code rarely do. */
const hasDigit = (before: string, length: number): string => `(?=${before}{0,${length - 1}}\\d)`

/** Shapes that gitleaks does not list, from the vendors' pages and example keys. */
const furtherShapes: ReadonlyArray<Shape> = [
  ["Adyen", "AQE[a-z]hmf", String.raw`(?:[\w+/=-]|%2[BbFf]){50,}`],
  ["Aiven", "AVNS_", `${word}{19}`],
  ["Anyscale", "esecret_", `${letters}{24,}`],
  ["Apify", "apify_api_", `${letters}{34,}`],
  ["Asana", String.raw`[12](?:\/|%2F)`, String.raw`\d{16}(?:(?:\/|%2F)\d{16})?(?::|%3A)[a-f0-9]{32}`],
  ["AWS session token", "(?:IQoJb3JpZ2lu|FwoGZXIvYXdz|FQoGZXIvYXdz)", `${base64}{80,}={0,2}`],
  ["Bitbucket", "ATCTT3", String.raw`[\w=-]{60,}`],
  ["Bitcoin", "[txyz]prv", `${letters}{107}`],
  [
    "Braintree",
    String.raw`access_token(?:\$|%24)(?:production|sandbox)(?:\$|%24)`,
    `[a-z0-9]{16}(?:\\$|%24)${hex}{32}`
  ],
  ["Brave", "BSA", `(?=${word}{0,27}[a-z])${hasDigit(word, 28)}${word}{28}`],
  ["Buildkite", "bk(?:ua|ct|rt|aj|at)_", `${letters}{40}`],
  ["Cartesia", "sk_car_", `${letters}{20,}`],
  ["Cerebras", "csk-", `${letters}{40,}`],
  ["CircleCI", "CCI(?:PAT|PRJ)_", `${letters}{20,24}_${hex}{40}`],
  ["ClickUp", String.raw`pk_\d{5,12}_`, "[A-Z0-9]{32}"],
  ["Cloudflare token", "cf(?:ut|at|k)_", `${letters}{40,}`],
  ["CockroachDB", "CCDB1_", `${letters}{22}_${letters}{40}`],
  ["CodeSandbox", "csb_v1_", `${word}{43}`],
  ["Contentful", "CFPAT-", `${word}{43}`],
  ["crates.io", "cio", `${hasDigit("[A-Za-z]", 32)}${letters}{32}`],
  ["Daytona", "dtn_", `${hex}{64}`],
  ["Deno Deploy", "dd[pow]_", `${letters}{36}`],
  ["Discord bot", "[MNO]", `${word}{23,25}\\.${word}{6}\\.${word}{27,38}`],
  ["Dropbox", String.raw`sl\.(?:u\.)?`, `${word}{100,}`],
  ["E2B", "e2b_", `${hex}{40}`],
  ["ElevenLabs", "sk_", `${hex}{48}`],
  ["Fireworks", "fw_", `${letters}{22,}`],
  ["Google refresh token", "1(?:\\/|%2F){2}0", `${word}{40,}`],
  ["Grafana API key", "eyJrIjoi", `${base64}{60,}={0,2}`],
  ["Honeycomb", "hc[abcd]ik_", `${letters}{58}`],
  ["Infisical", String.raw`st\.`, `${hex}{24}\\.${hex}{32}\\.${hex}{32}`],
  ["Intercom", "dG9rO", `${base64}{40,}={0,2}`],
  ["Jina", "jina_", `${word}{60,}`],
  ["Klaviyo", "pk_", `${hex}{34}`],
  ["LangSmith", "lsv2_(?:pt|sk)_", `${hex}{32}_${hex}{10}`],
  ["MailerSend", String.raw`mlsn\.`, `${hex}{64}`],
  ["Mem0", "m0-", `${letters}{40}`],
  ["Modal", "a[ks]-", `${hasDigit("[A-Za-z]", 22)}${letters}{22}`],
  ["Mollie", "(?:live|test)_", `${hasDigit("[A-Za-z]", 30)}${letters}{30}`],
  ["Neon", "napi_", `${letters}{60,}`],
  ["Netlify", "nf[pcoub]_", `${letters}{36,}`],
  ["NVIDIA", "nvapi-", `${word}{60,}`],
  ["OpenAI session", "sess-", `${letters}{40}`],
  ["Packagist", "packagist_[a-z]{3}_", `${hex}{60,}`],
  ["Pinecone", "pcsk_", `${word}{40,}`],
  ["Razorpay", "rzp_(?:live|test)_", `${letters}{14}`],
  ["Render", "rnd_", `${letters}{28,}`],
  ["Retell", "key_", `${hex}{28}`],
  ["RunPod", "rpa_", "[A-Z0-9]{40,}[a-z0-9]{0,8}"],
  ["Salesforce", "00D", String.raw`[A-Za-z0-9]{12,15}(?:!|%21)[\w.]{60,}`],
  ["Slack workflow", "xwfp-", `${word}{24,}`],
  ["Snyk", String.raw`snyk_[us]at\.`, String.raw`[\w.-]{40,}`],
  ["Sourcegraph licence", "slk_", `${hex}{64}`],
  ["Stripe webhook", "whsec_", `${base64}{32,}={0,2}`],
  ["Supabase secret", "sb_secret_", `${word}{22,}`],
  ["Together", "tgp_v1_", `${word}{40,}`],
  // Zero bytes in base64 look the same, except for the percent escapes that this pattern requires.
  ["Twitter", "A{21}", `${letters}{5,40}%(?:25)?(?:2B|2F|3D)[A-Za-z0-9%]{30,}`],
  ["Voyage", "pa-", `(?=${word}{0,42}[A-Z])${hasDigit(word, 43)}${word}{43}`],
  ["WakaTime", "waka_", uuid],
  ["Xata", "xau_", `${letters}{32,}`],
  ["You.com", "ydc-sk-", `${word}{24,}`]
]

/**
 * Keys that are recognized by a literal inside them: the literal to search for first, and the pattern of the whole key.
 */
export const marked: ReadonlyArray<readonly [kind: string, mark: string, whole: string]> = [
  ["Azure DevOps", "AZDO", `${letters}{76}AZDO${letters}{4}`],
  ["Azure client secret", "Q~", String.raw`[\w~.]{3}\dQ~[\w~.-]{31,34}`],
  ["Firebase", "APA91b", String.raw`[\w-]{11,22}(?::|%3A)APA91b[\w-]{100,}`],
  ["HashiCorp Terraform", ".atlasv1.", String.raw`[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,}`],
  ["Mailchimp", "-us", `${hex}{32}-us\\d{1,2}`],
  ["MaxMind", "_mmk", `${letters}{6}_${letters}{29}_mmk`]
]

/** Addresses that are credentials themselves: anyone who knows such an address can post to it. */
export const addresses = [
  String.raw`hooks\.slack\.com\/(?:services|workflows|triggers)\/[A-Za-z0-9+/]{40,60}`,
  String.raw`hooks\.slack\.com%2F(?:services|workflows|triggers)%2F(?:[A-Za-z0-9]|%2F){40,64}`,
  String.raw`discord(?:app)?\.com(?:\/api\/webhooks\/|%2Fapi%2Fwebhooks%2F)\d{17,20}(?:\/|%2F)[\w-]{60,}`,
  String.raw`hooks\.zapier\.com(?:\/hooks\/catch\/|%2Fhooks%2Fcatch%2F)\d{4,12}(?:\/|%2F)[a-z0-9]{6,16}`,
  String.raw`maker\.ifttt\.com(?:\/|%2F)trigger(?:\/|%2F)[\w-]{1,64}(?:\/|%2F)(?:json(?:\/|%2F))?with(?:\/|%2F)key(?:\/|%2F)[\w-]{20,}`
].join("|")

/**
 * An address that is a credential and that begins with a name of any kind: the literal to search for first, and the
 * pattern of the whole address. The secret is the path, so a name that is too long remains. Other positions in the name
 * are not tried, so that a long word is read once.
 */
export const namedAddress: readonly [mark: string, whole: string] = [
  ".webhook.office.com",
  String.raw`(?:(?<![a-z0-9])[a-z0-9]{1,63})?\.webhook\.office\.com\/webhookb2\/[\w@/-]{40,}`
]

/**
 * Every shape as one pattern source. A short shape (`AC…`) must end at the end of a word, so that a longer word is not
 * a key.
 */
export const source = [...shapes, ...furtherShapes].map(([, prefix, rest]) => prefix + rest).join("|")
