fn parse_url() {}
fn other() {}
