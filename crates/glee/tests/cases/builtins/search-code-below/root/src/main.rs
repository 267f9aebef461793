fn main() { parse_url() }
